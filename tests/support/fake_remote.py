# SPDX-License-Identifier: Apache-2.0
"""A foreign machine without a machine: commands run on this host, and die when its power goes.

The way to it (`Remote`) is a fake, its switch and everything else are real.  What a lying disk
loses is planted: of the file `data/log` all but the first lines; and what a program has written
that runs without syncs is lost altogether.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import uuid
from collections.abc import Iterable
from pathlib import Path

from switches import Switch

from powercut.closing import Closing
from powercut.model.errors import DeadlineExceeded
from powercut_extras.elsewhere.backend import ForeignBackend
from powercut_extras.elsewhere.machine import BOOT_ID
from powercut_extras.elsewhere.remote import Done, NotLetIn, Unreachable


class FakeHost(Closing):
    """`keeps`: how many lines of the log a cut leaves; None for all that were synced."""

    def __init__(self, folder: Path, *, keeps: int | None = None) -> None:
        self.folder = folder / "pc"
        self.keeps = keeps
        self.unplugged = False  # its commands do nothing: the power stays
        self.takes = True  # what was not synced
        self.takes_cache = True  # what lay in the disk's own cache: of a disk that is sent no flush
        self.flushes = True  # until the next boot its kernel sends them
        self.orderly = False  # it shuts down, and ends its programs first
        self.comes_back = True
        self.lets_in = True
        self.filesystem = "ext4"
        self.remounts = True  # after a boot its file system is where it was
        self.is_on = True
        self.boots = 1
        self.boot_id = str(uuid.uuid4())
        self.running: list[FakeCommand] = []
        self.switch = Switch(folder, self)

    def on(self) -> None:
        if self.is_on or not self.comes_back:
            return
        self.is_on = True
        self.boots += 1
        self.boot_id = str(uuid.uuid4())

    def off(self) -> None:
        if self.unplugged or not self.is_on:
            return
        for command in self.running:
            command.end(in_order=self.orderly)
        self.is_on = False
        unsynced = bool(self.running) and self.running[-1].unsynced
        cached, self.flushes = not self.flushes, True
        lost = (unsynced and self.takes) or (cached and self.takes_cache)
        keeps = 0 if lost else self.keeps
        log = self.folder / "data" / "log"
        if keeps is not None and log.exists():
            lines = log.read_text().splitlines(keepends=True)
            log.write_text("".join(lines[:keeps]))

    def facts(self) -> bytes:
        there = self.boots == 1 or self.remounts
        kind, number = (self.filesystem, "1a") if there else ("xfs", "2b")
        return f"/dev/sda1\n{kind}\nrw\n{number}\n".encode()

    def close(self) -> None:
        for command in self.running:
            command.end(in_order=False)
            command.hang_up()
        self.switch.close()


class FakeCommand:
    """A command that runs on this host in a process group of its own."""

    def __init__(self, script: str) -> None:
        self.unsynced = "unsynced/unsynced" in script
        self._process = subprocess.Popen(
            ["sh", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._lost = False

    def end(self, *, in_order: bool) -> None:
        self._lost = not in_order
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def hang_up(self) -> None:
        self._process.stdout.close()

    def read(self) -> bytes:
        data = os.read(self._process.stdout.fileno(), 1 << 16)
        if not data:
            self._process.wait()
        return data

    @property
    def status(self) -> int | None:
        done = self._process.poll()
        return None if self._lost or done is None else max(done, 0) or (255 if done else 0)

    @property
    def ended_in_order(self) -> bool:
        return not self._lost and self._process.poll() is not None

    @property
    def printed(self) -> str:
        return ""

    def close(self) -> None:
        """It ends with its session."""
        self.end(in_order=False)


class FakeRemote(Closing):
    def __init__(self, host: FakeHost) -> None:
        self._host = host
        self._boot = ""

    def connect(self, *, timeout_s: float) -> None:
        if not self._host.is_on:
            raise Unreachable("ssh fake: no route to host")
        if not self._host.lets_in:
            raise NotLetIn("ssh fake: Authentication failed.", hint="`ssh fake true` has to work")
        self._boot = self._host.boot_id

    def _check(self) -> None:
        if not self._host.is_on or self._boot != self._host.boot_id:
            raise Unreachable("ssh fake: the link was lost")

    def run(self, script: str, *, stdin: Iterable[bytes] = (), timeout_s: float) -> Done:
        self._check()
        if script == BOOT_ID:
            return Done(0, self._host.boot_id.encode() + b"\n", "")
        if "sysrq-trigger" in script:
            self._host.off()
            self._host.on()
            return Done(0, b"", "")
        if "/proc/mounts" in script:
            return Done(0, self._host.facts(), "")
        if "queue/write_cache" in script:  # read, or set: never this host's
            if "cannot be set" in script:
                self._host.flushes = "write through" not in script
            return Done(0, b"write back\n", "")
        try:
            done = subprocess.run(
                ["sh", "-c", script],
                input=b"".join(stdin),
                capture_output=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise DeadlineExceeded("ssh fake: no answer") from None
        return Done(done.returncode, done.stdout, done.stderr.decode())

    def begin(self, script: str, *, timeout_s: float) -> FakeCommand:
        self._check()
        command = FakeCommand(script)
        self._host.running.append(command)
        return command

    def another(self) -> FakeRemote:
        return FakeRemote(self._host)

    def close(self) -> None:
        self._boot = ""


HOSTS: list[FakeHost] = []
"""The last one is the one to which every name leads."""


def fake_backend(cache: Path) -> ForeignBackend:
    return ForeignBackend(cache, lambda _: FakeRemote(HOSTS[-1]))
