# SPDX-License-Identifier: Apache-2.0
"""The channel to a foreign machine: commands there, each in a session of ssh's.

What a command writes to descriptor 3 is its lines; they go on, as they come, to the machine's port
for lines (`powercut.machine.port.LINES`), ended by a mark.  Nothing listens on the network: the
session itself carries them.  A session that breaks off says nothing, so that a line that was under
way when the power went was not said.
"""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from powercut.brought import brought
from powercut.channel.check_lines import LinesAlone
from powercut.channel.lines import END_OF_LINES
from powercut.channel.listener import listen_unix
from powercut.channel.port import CommandResult, GuestFailed
from powercut.closing import Closing
from powercut.model.errors import DeadlineExceeded, HostError
from powercut.model.history import History
from powercut_extras.elsewhere.machine import ForeignMachine, read_boot_id
from powercut_extras.elsewhere.remote import Done, Remote, RemoteCommand, last_line

_FACTS: Final = (
    "uname -s; uname -r; uname -m; "
    "(. /etc/os-release && printf '%s\\n' \"$PRETTY_NAME\") 2>/dev/null"
)
_NAMES: Final = ("kernel", "kernel_release", "processor", "system")
_TAR: Final = ("--owner=0", "--group=0", "--no-recursion", "--null", "-T-", "-cf", "-")
_CHUNK: Final = 1 << 16
_SHOWN: Final = 8
_ENDS_S: Final = 10.0


class LinePort(Closing):
    """A unix socket on which a command's lines are had; without a listener they are dropped."""

    def __init__(self, path: Path) -> None:
        self._listener = listen_unix(path)
        self._listener.setblocking(False)
        self._taker: socket.socket | None = None

    def turn(self) -> None:
        """From here on whoever connected last has the lines."""
        while True:
            try:
                taker, _ = self._listener.accept()
            except BlockingIOError:
                return
            self._hang_up()
            taker.setblocking(True)
            self._taker = taker

    def say(self, data: bytes) -> None:
        """Hands them over."""
        if self._taker is None:
            return
        try:
            self._taker.sendall(data)
        except OSError:
            self._hang_up()

    def _hang_up(self) -> None:
        if self._taker is not None:
            self._taker.close()
            self._taker = None

    def close(self) -> None:
        self._hang_up()
        self._listener.close()


class SshChannel(LinesAlone, Closing):
    """A `Channel` whose commands are command lines of the machine's own system."""

    def __init__(self, name: str, remote: Remote, machine: ForeignMachine, port: LinePort) -> None:
        self._name = name
        self._remote = remote
        self._machine = machine
        self._port = port
        self._pump: threading.Thread | None = None

    def wait_hello(self, *, timeout_s: float) -> dict[str, str]:
        done = self._remote.run(_FACTS, timeout_s=timeout_s)
        said = dict(zip(_NAMES, done.text.splitlines(), strict=False))
        return {**said, "boot_id": read_boot_id(self._remote, self._name)}

    def run(self, *argv: str, timeout_s: float) -> CommandResult:
        """Its lines are on the port, and their end, when this returns."""
        self._port.turn()
        done = self._remote.run(_script(argv), timeout_s=timeout_s)
        self._port.say(done.output + END_OF_LINES)
        return _result(done)

    def start(self, *argv: str) -> None:
        """Its lines come on the port as they come over the link."""
        self._port.turn()
        command = self._remote.begin(_script(argv), timeout_s=_ENDS_S)
        self._machine.writer = command
        self._pump = threading.Thread(target=self._carry, args=(command,), daemon=True)
        self._pump.start()

    def _carry(self, command: RemoteCommand) -> None:
        while data := command.read():
            self._port.say(data)
        if command.ended_in_order:
            self._port.say(END_OF_LINES)

    def wait_done(self, *, timeout_s: float) -> CommandResult:
        command = self._machine.writer
        if self._pump is None or command is None:
            raise HostError(f"{self._name}: nothing was started there")
        self._pump.join(timeout_s)
        if self._pump.is_alive():
            raise DeadlineExceeded(f"{self._name}: the program has not ended")
        if command.status is None:
            raise GuestFailed(f"{self._name}: the link was lost")
        return _result(Done(command.status, b"", command.printed))

    def bring(self, path: Path, to: str, *, timeout_s: float) -> None:
        """Brings a file of this host, or what is in a folder, there.  Raises HostError."""
        script = f"mkdir -p {shlex.quote(to)} && tar -xf - -C {shlex.quote(to)}"
        done = self._remote.run(script, stdin=_packed(path), timeout_s=timeout_s)
        if done.status:
            raise HostError(
                f"{path} could not be brought to {self._name}:{to}: {last_line(done.printed)}",
                hint="is there room, and may this user write there?",
            )

    def drain(self, *, timeout_s: float) -> History:
        """What has arrived is handed over; what was under way has not been said."""
        if self._machine.writer is not None:
            self._machine.writer.close()
        if self._pump is not None:
            self._pump.join(timeout_s)
        self._port.close()
        return History.nothing()

    def close(self) -> None:
        self.drain(timeout_s=_ENDS_S)


def _script(argv: tuple[str, ...]) -> str:
    """A command line whose descriptor 3 is the session's output, and the rest its stderr."""
    return f"exec 3>&1 1>&2 </dev/null; exec {shlex.join(argv)}"


def _result(done: Done) -> CommandResult:
    texts = tuple(done.printed.splitlines()[-_SHOWN:])
    return CommandResult(done.status, "", {}, (), texts, None)


def _packed(path: Path) -> Iterator[bytes]:
    """A file, or what of a folder goes along with a program, as a tar.  Raises HostError."""
    folder, paths = (path, brought(path)) if path.is_dir() else (path.parent, [path])
    with tempfile.TemporaryFile() as names, tempfile.TemporaryFile() as errors:
        names.write(b"".join(os.fsencode(one.relative_to(folder)) + b"\0" for one in paths))
        names.seek(0)
        process = subprocess.Popen(
            ["tar", "-C", str(folder), *_TAR],
            stdin=names,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        assert process.stdout is not None
        try:
            while data := process.stdout.read(_CHUNK):
                yield data
        finally:
            process.stdout.close()
            status = process.wait(_ENDS_S)
        if status:
            errors.seek(0)
            why = last_line(errors.read().decode(errors="replace"))
            raise HostError(f"{path} cannot be packed: {why}")
