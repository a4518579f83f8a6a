# SPDX-License-Identifier: Apache-2.0
"""Where a user's folders are, also those of one without a home; paths in commands."""

from __future__ import annotations

import pwd
import shlex
from pathlib import Path

import pytest
from command_line import powercut

from extras import extra
from powercut import paths
from powercut.model.errors import UsageError
from powercut.paths import as_word, command, expanded, user_folder
from powercut.report.program_cut import look_on
from powercut.store.layout import reproduce_command


def test_a_user_without_a_home_has_the_root_as_in_containers(monkeypatch):
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    with pytest.raises(RuntimeError):
        Path.home()
    assert expanded("~/.ssh/known_hosts") == Path("/.ssh/known_hosts")
    assert user_folder("XDG_CACHE_HOME", "~/.cache") == Path("/.cache")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/tmp/mine")
    assert user_folder("XDG_CACHE_HOME", "~/.cache") == Path("/var/tmp/mine")


def test_what_begins_with_no_user_stays(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert expanded("~/x") == Path("/home/me/x")
    assert [expanded(name) for name in ("x/~", "/~")] == [Path("x/~"), Path("/~")]
    with pytest.raises(UsageError, match="~no-such-user/x: no user no-such-user has a home"):
        expanded("~no-such-user/x")


def test_a_user_that_is_not_there_is_a_mistake_of_the_command_line():
    extra("pages.manual")
    done = powercut("doctor", "manual", "~no-such-user/man")
    assert done.returncode == 2
    assert done.stderr == (
        "powercut: ~no-such-user/man: no user no-such-user has a home on this host\n"
        "hint: write the path in full\n"
    )


def test_a_path_is_one_word_relative_to_where_the_caller_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert as_word(tmp_path / "a b" / "it's") == shlex.quote("a b/it's")
    assert as_word(Path("/else where")) == "'/else where'"
    assert as_word(Path("/plain-1.0_x/y")) == "/plain-1.0_x/y"


def test_a_command_is_made_of_words_wherever_powercut_and_the_recording_lie(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path / "a b")
    monkeypatch.setattr(paths, "INSTALLED", False)
    for _, line in look_on(tmp_path / "c d", "state"):
        called, _, recording, state = shlex.split(line)
        assert (called, recording, state) == (
            str(tmp_path / "a b" / "powercut"),
            str(tmp_path / "c d"),
            "state",
        )
    monkeypatch.chdir("/")
    launcher = [str(tmp_path / "a b" / "powercut")]
    assert shlex.split(command()) == launcher
    scenario = tmp_path / "c d" / "scenario.yaml"
    again = reproduce_command(scenario, 7)
    assert shlex.split(again) == [*launcher, "run", str(scenario)[1:], "--seed", "7"]
    certified = extra("certify.request").CertifyOptions(scenarios=("e f",)).command(7, ())
    assert shlex.split(certified) == [*launcher, "certify", "e f", "--seed", "7"]
