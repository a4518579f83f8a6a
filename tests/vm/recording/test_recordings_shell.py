# SPDX-License-Identifier: Apache-2.0
"""The shell on a crash state, as somebody at a terminal has it."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from powercut.recording.shell import find_busybox, is_static

START_S = 180
PROMPT = b"powercut:"


class Terminal:
    """A program on a pseudo-terminal."""

    def __init__(self, argv: list[str]) -> None:
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            argv, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)
        self.seen = b""

    def type(self, text: bytes) -> None:
        os.write(self.master, text)

    def wait_for(self, text: bytes) -> bytes:
        """What came up to `text`, which is taken away."""
        deadline = time.monotonic() + START_S
        while text not in self.seen:
            left = deadline - time.monotonic()
            assert left > 0, f"no {text!r} in {self.seen!r}"
            if select.select([self.master], [], [], left)[0]:
                try:
                    self.seen += os.read(self.master, 4096)
                except OSError:  # the other end is closed
                    raise AssertionError(f"it ended without {text!r}: {self.seen!r}") from None
        before, _, self.seen = self.seen.partition(text)
        return before

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.master)


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
