# SPDX-License-Identifier: Apache-2.0
"""Which recordings a user has made: told by a mark that nobody else can make."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from powercut.model.errors import DamagedRecording
from powercut.store import own
from powercut.store.manifest import MANIFEST, adopt, is_own, seal
from powercut.store.own import MARK

KEY = "powercut/recordings.key"


def is_own_later(folder: Path) -> bool:
    """The same, asked by a process of its own."""
    code = (
        "import sys, pathlib; from powercut.store.manifest import is_own;"
        "print(is_own(pathlib.Path(sys.argv[1]), 'trial.json'))"
    )
    argv = [sys.executable, "-c", code, str(folder)]
    return subprocess.check_output(argv, text=True).strip() == "True"


@pytest.fixture(autouse=True)
def untold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own._Process, "marked", False)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder


def refused(path: Path) -> None:
    raise PermissionError(13, "Permission denied", str(path))


def sealed(folder: Path, text: str = "sh -c true") -> Path:
    folder.mkdir()
    (folder / "trial.json").write_text(text)
    seal(folder, ["trial.json"])
    return folder


def test_who_seals_a_recording_has_made_it(tmp_path, state):
    folder = sealed(tmp_path / "r")
    assert is_own(folder, "trial.json")
    key = state / KEY
    assert (key.stat().st_mode & 0o777, key.stat().st_size) == (0o600, 32)
    assert key.parent.stat().st_mode & 0o077 == 0
    assert key.read_bytes().hex() not in (folder / MARK).read_text()
    assert list(key.parent.iterdir()) == [key]
    assert own.unkept() == ""
    assert is_own_later(folder)
    again = sealed(tmp_path / "again")
    assert key.read_bytes() == key.read_bytes()
    assert is_own(again, "trial.json")


def test_another_user_has_not(tmp_path, state, monkeypatch):
    folder = sealed(tmp_path / "r")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    assert not is_own(folder, "trial.json")
    assert not (tmp_path / "other").exists()  # to ask leaves nothing
    sealed(tmp_path / "theirs")
    assert not is_own(folder, "trial.json")
    adopt(folder)
    assert is_own(folder, "trial.json")


def test_a_mark_of_another_recording_is_none(tmp_path, state):
    folder, other = sealed(tmp_path / "r"), sealed(tmp_path / "o", "sh -c 'touch x'")
    (other / MARK).write_bytes((folder / MARK).read_bytes())
    assert not is_own(other, "trial.json")
    for text in (b"", b"\0" * 64, b"\xff" * 1000):
        (other / MARK).write_bytes(text)
        assert not is_own(other, "trial.json")


def test_a_changed_record_is_damaged_and_one_sealed_elsewhere_is_not_mine(tmp_path, state):
    folder = sealed(tmp_path / "r")
    (folder / "trial.json").write_text("sh -c evil")
    with pytest.raises(DamagedRecording, match=r"trial\.json"):
        is_own(folder, "trial.json")
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["files"][0] |= {"size": 1}
    (folder / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(DamagedRecording):
        is_own(folder, "trial.json")


@pytest.mark.parametrize("spoilt", ["readable", "short", "link", "pipe", "folder"])
def test_a_key_that_others_may_know_is_none(tmp_path, state, spoilt):
    folder = sealed(tmp_path / "r")
    key = state / KEY
    if spoilt == "readable":
        key.chmod(0o640)
    elif spoilt == "short":
        key.write_bytes(b"x")
    else:
        key.rename(tmp_path / "key")
        if spoilt == "link":
            key.symlink_to(tmp_path / "key")
        elif spoilt == "pipe":
            os.mkfifo(key, 0o600)
        else:
            key.mkdir()
    assert not is_own(folder, "trial.json")
    following = sealed(tmp_path / "next")
    assert is_own(following, "trial.json"), "with the key of this process"
    assert not is_own_later(following)
    assert str(key) in own.unkept()


@pytest.mark.root
def test_root_does_not_believe_the_key_of_another_user(tmp_path, state):
    folder = sealed(tmp_path / "r")
    os.chown(state / KEY, 1234, 1234)
    assert not is_own(folder, "trial.json")
    following = sealed(tmp_path / "next")  # as with `sudo -E`
    assert is_own(following, "trial.json")
    assert not is_own_later(following)


@pytest.mark.parametrize("home", ["/proc", "file", None])
def test_without_a_place_for_the_key_this_process_alone_knows(tmp_path, monkeypatch, home):
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("XDG_STATE_HOME")
    if home is None:  # and a user without an entry in /etc/passwd
        monkeypatch.delenv("HOME")
        monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
        monkeypatch.setattr(own, "_write", refused)
    else:
        monkeypatch.setenv("HOME", str(tmp_path / home))
    folder = sealed(tmp_path / "r")
    assert is_own(folder, "trial.json")
    assert not is_own_later(folder)
    where = str(tmp_path / (home or "/"))
    assert own.unkept() == (
        "later commands will not know what this one recorded as made here: no key that only you "
        f"know can be kept at {where.rstrip('/')}/.local/state/{KEY}; set XDG_STATE_HOME to a "
        "folder of yours"
    )
    (folder / MARK).write_text("0" * 64 + "\n")
    assert not is_own(folder, "trial.json")
