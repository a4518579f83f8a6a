# SPDX-License-Identifier: Apache-2.0
"""A folder of the host for tests/support/hostile_program.py, with all that it tries to reach."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROGRAM = Path(__file__).parent / "hostile_program.py"
_PYTHON = os.path.realpath(sys.executable)


@dataclass(frozen=True)
class Bait:
    """What the program may not reach; `heard` says whether it did."""

    folder: Path
    command: tuple[str, ...]
    listening: tuple[socket.socket, ...]
    pipe: int
    made: Path

    def heard(self) -> list[str]:
        """What of the host has changed or been reached."""
        told = []
        if (self.folder / "victim").read_text() != "precious":
            told.append("victim written")
        if sorted(one.name for one in self.folder.iterdir()) != [
            "hostile_program.py", "pipe", "relative", "renamed", "socket", "victim",
        ]:  # fmt: skip
            told.append("file made")
        for one in self.listening:
            with contextlib.suppress(BlockingIOError):
                one.accept()
                told.append(f"{one.getsockname()} reached")
        with contextlib.suppress(BlockingIOError):
            os.read(self.pipe, 1)
            told.append("pipe written")
        if self.made.exists():
            told.append("/etc written")
        return told


@contextlib.contextmanager
def bait(*words: str) -> Iterator[Bait]:
    """Lies in no place that a sandbox leaves empty, and where other users may look, too."""
    number = str(os.getpid())
    with contextlib.ExitStack() as stack:
        folder = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(dir="/var/lib" if os.geteuid() == 0 else Path.home())
            )
        )
        folder.chmod(0o755)
        shutil.copy(PROGRAM, folder)
        (folder / "victim").write_text("precious")
        os.mkfifo(folder / "pipe")
        (folder / "pipe").chmod(0o666)
        pipe = os.open(folder / "pipe", os.O_RDWR | os.O_NONBLOCK)
        stack.callback(os.close, pipe)
        made = Path(f"/etc/powercut-made-{number}")  # another test's may be there
        stack.callback(made.unlink, missing_ok=True)  # where a try succeeds
        for place in ("/tmp", "/dev/shm"):
            path = Path(place, f"powercut-{number}")
            path.touch()
            stack.callback(path.unlink)
        listening = []
        for kind, address in (
            (socket.AF_UNIX, str(folder / "socket")),
            (socket.AF_UNIX, f"\0powercut-{number}"),
            (socket.AF_INET, ("127.0.0.1", 0)),
        ):
            one = stack.enter_context(socket.socket(kind))
            one.bind(address)
            one.listen()
            one.setblocking(False)
            listening.append(one)
        for name in ("relative", "renamed"):
            one = stack.enter_context(socket.socket(socket.AF_UNIX))
            with contextlib.chdir(folder):
                one.bind("relative" if name == "relative" else str(folder / "before"))
            one.listen()
            one.setblocking(False)
            listening.insert(0, one)
        (folder / "before").rename(folder / "renamed")
        for name in ("socket", "relative", "renamed"):
            (folder / name).chmod(0o777)
        port = str(listening[-1].getsockname()[1])
        program = str(folder / "hostile_program.py")
        command = (_PYTHON, "-I", "-S", program, str(folder), port, number, number, *words)
        yield Bait(folder, command, tuple(listening), pipe, made)


def reached(lines: bytes) -> dict[str, str]:
    """What each try has reached; empty if nothing."""
    return dict(json.loads(line) for line in lines.splitlines())


def users_of(opened: str) -> set[int]:
    """Who, to this host, the processes besides this one are that have the file of a name open."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            names = [os.path.realpath(one) for one in (process / "fd").iterdir()]
            if process.name != str(os.getpid()) and opened in names:
                found.add(process.stat().st_uid)
    return found
