# SPDX-License-Identifier: Apache-2.0
"""What a user gets wrong is his to mend, whatever it is: never a traceback, never status 1."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest
from command_line import COMMANDS, powercut

APPEND = "workloads/examples/append.sh"


def is_mistake(done, *words):
    """Exit status 2, and one message with all `words`."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "bug in powercut" not in done.stderr
    for word in words:
        assert word in done.stderr
    return True


@pytest.mark.parametrize(
    ("argv", "option"),
    [
        (("capture", ".", "--check", "'x", "--", "true"), "--check"),
        (("listen", ".", "--check", "'x"), "--check"),
        (("record", "--mkfs", "'x", "--", APPEND), "--mkfs"),
        (("try", "--mkfs", "'x", "--", APPEND), "--mkfs"),
        (("audit", "syncs", "--mkfs", "'x", "--", APPEND), "--mkfs"),
        (("audit", "syncs", "--test", "'x", "--", APPEND), "--test"),
    ],
)
def test_an_open_quote_names_its_option(argv, option):
    done = powercut(*argv)
    assert is_mistake(done, option, "not a command line: no closing quotation: 'x")


LONG = "x" * 5000
ALL = (
    ("show",),
    ("verify",),
    ("explore",),
    ("minimize",),
    ("shell",),
    ("reproduce",),
    ("audit", "acks"),
    ("audit", "flushes"),
    ("import",),
    ("history",),
    ("serve",),
    ("probe",),
    ("export", "-o", "out.tar"),
    ("run", "--resume"),
    ("run", "--results"),
    ("run",),
    ("run", "--cluster"),
    ("certify",),
    ("certify", "--resume"),
    ("certify", "--domain-xml"),
    ("certify", "--logo"),
    ("audit", "cost"),
    ("record", "--dry-run", "--"),
    ("capture", "--"),
    ("init",),
)
EVIDENCE = tuple(words for words in ALL if words[0] in COMMANDS)
"""Verbs and options, each before a path that the user gives."""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def nested(here):
    """Folders within folders, deeper than Python's calls."""
    top = os.open(here, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("a", dir_fd=top)
        below = os.open("a", os.O_RDONLY, dir_fd=top)
        os.close(top)
        top = below
    os.close(top)
    yield here
    subprocess.run(["rm", "-rf", here / "a"], check=True)  # pytest would do it by recursion


@pytest.fixture
def in_time() -> Iterator[None]:
    """A call that waits for ever is interrupted, which is no mistake of a user's."""

    def interrupt(*_: object) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("words", EVIDENCE, ids=" ".join)
@pytest.mark.parametrize("name", [LONG, "x/" * 2500], ids=["name", "path"])
def test_a_name_that_no_file_has(here, words, name):
    assert is_mistake(powercut(*words, name), "xx" if name is LONG else "x/x/x")


@pytest.mark.parametrize("words", EVIDENCE, ids=" ".join)
def test_a_link_that_leads_to_itself(here, words):
    (here / "loop").symlink_to("loop")
    assert is_mistake(powercut(*words, "loop"), "loop")


@pytest.mark.parametrize("words", EVIDENCE, ids=" ".join)
def test_a_pipe_is_not_waited_for(here, in_time, words):
    os.mkfifo(here / "pipe")
    done = powercut(*words, "pipe")
    assert is_mistake(done, "pipe")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("explore",), "trial.json"),
        (("show",), "certificate.json"),
        (("verify",), "capture.json"),
        (("run",), "scenario.yaml"),
        (("run", "--resume"), "scenario.yaml"),
        (("certify",), "scenario.yaml"),
        (("audit", "cost"), "scenario.yaml"),
        (("minimize",), "import.json"),
        (("certify", "--compare", "."), "certificate.json"),
    ],
)
def test_a_pipe_within_a_folder_is_not_waited_for(here, in_time, words, name):
    (here / "folder").mkdir()
    os.mkfifo(here / "folder" / name)
    assert is_mistake(powercut(*words, "folder"), "folder")


def test_a_history_leaves_out_a_pipe(here, in_time):
    (here / "one").mkdir()
    os.mkfifo(here / "one" / "certificate.json")
    assert powercut("history", ".").returncode in (0, 2, 3)


@pytest.mark.parametrize("words", [words for words in EVIDENCE if words[0] not in ("run",)])
def test_an_empty_name_is_no_folder_that_the_caller_is_in(here, words):
    assert is_mistake(powercut(*words, ""))


@pytest.mark.parametrize("words", EVIDENCE, ids=" ".join)
def test_a_current_folder_that_was_removed(here, monkeypatch, words):
    (here / "gone").mkdir()
    monkeypatch.chdir(here / "gone")
    (here / "gone").rmdir()
    assert is_mistake(powercut(*words, "x"), "the current folder has been removed", "cd to")


def test_a_folder_that_nothing_can_be_made_in(here):
    assert is_mistake(powercut("init", "/proc/x"), "/proc/x", "No such file or directory")
    (here / "file").touch()
    assert is_mistake(powercut("init", "file"), "file")


def test_folders_that_are_nested_deeper_than_calls(nested):
    for words in ("minimize",), ("explore",), ("audit", "acks"), ("export", "-o", "x"), ("run",):
        assert is_mistake(powercut(*words, "."))


def test_a_folder_that_holds_too_much_to_look_through(nested, monkeypatch):
    """As `/` does."""
    monkeypatch.setattr("powercut.model.named_path._FOLDERS_MAX", 20)
    for words in ("minimize",), ("explore",), ("run",):
        assert is_mistake(powercut(*words, "."), "more than 20 folders", "name the folder")


def test_a_word_that_is_no_text(here):
    for words in ("capture", "."), ("record",), ("try",), ("audit", "syncs"):
        done = powercut(*words, "--", "\udcff")
        assert is_mistake(done, r"'\udcff' is not UTF-8")
