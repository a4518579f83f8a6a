# SPDX-License-Identifier: Apache-2.0
"""The shell on a crash state, as somebody at a terminal has it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from terminal import START_S, Terminal

from powercut.recording.shell import find_busybox, is_static

PROMPT = b"powercut:"


@pytest.fixture
def terminal(trial_of) -> Iterator[Terminal]:
    command = [sys.executable, "-m", "powercut.cli.main", "shell", str(trial_of("xfs")), "ack:7"]
    opened = Terminal(command)
    yield opened
    opened.close()


def test_a_prompt_in_the_state(terminal: Terminal, trial_of) -> None:
    before = {p: p.stat().st_mtime_ns for p in trial_of("xfs").iterdir()}
    greeting = terminal.wait_for(PROMPT)
    assert b"Changes are lost when you leave: `exit` leaves; Ctrl-A, then x" in greeting
    assert b"Recovered by xfs and mounted on /mnt" in greeting
    terminal.type(b"wc -c < log; echo $((40 + 2))\n")
    terminal.wait_for(b"\n42\r")
    terminal.wait_for(PROMPT)
    terminal.type(b"stat -c size=%s log\n")
    terminal.wait_for(b"\nsize=")
    size = int(terminal.wait_for(b"\r"))
    assert size >= 7 * 512  # every record that had been acknowledged
    terminal.type(b"echo written > /mnt/new && sync && cat /mnt/new\n")
    terminal.wait_for(b"\nwritten\r")
    terminal.type(b"exit\n")
    assert terminal.process.wait(timeout=START_S) == 0
    assert {p: p.stat().st_mtime_ns for p in trial_of("xfs").iterdir()} == before


def test_it_ends_at_once_when_told_so(terminal: Terminal) -> None:
    terminal.wait_for(PROMPT)
    terminal.type(b"\x03")  # is the guest's, and does nothing here
    terminal.wait_for(PROMPT)
    terminal.type(b"\x01x")
    assert terminal.process.wait(timeout=START_S) == 0


def test_busybox_is_static_and_the_shell_is_not() -> None:
    assert is_static(find_busybox().read_bytes())
    with Path("/bin/ls").open("rb") as file:
        assert not is_static(file.read())
    assert not is_static(b"#!/bin/sh")


def test_without_a_terminal_it_refuses_unless_told(trial_of) -> None:
    command = [sys.executable, "-m", "powercut.cli.main", "shell", str(trial_of("xfs")), "ack:7"]
    done = subprocess.run(command, input="", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--no-terminal takes commands from it" in done.stderr
    done = subprocess.run(
        [*command, "--no-terminal"],
        input="echo $((40 + 2))\n",  # and no `exit`
        capture_output=True,
        text=True,
        check=False,
        timeout=START_S,
    )
    assert done.returncode == 0
    assert "\n42\n" in done.stdout.replace("\r", "")
