# SPDX-License-Identifier: Apache-2.0
"""What a process prints, of which its file keeps the end.

A guest, a hypervisor, a kernel that is a process and a program may print without end.  So none of
them has the file: they write into a pipe, from which this process takes all and keeps the last
`KEPT_MAX` bytes at most.  If there was more the file begins with words that say so.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

KEPT_MAX: Final = 16 << 20
"""Bytes of a file."""

TAIL_BYTES: Final = 4096
_PIPE_BYTES: Final = 1 << 20
_CHUNK: Final = 1 << 16
_CUT_OFF: Final = b"(powercut: what came before this is not kept)\n"
_lock = threading.Lock()
_open: dict[str, list[_Pipe]] = {}


@contextlib.contextmanager
def printed(path: Path | int) -> Iterator[int]:
    """A descriptor for a process that is started meanwhile; what it prints is appended to `path`,
    which may be a file without a name: its descriptor.

    Raises OSError.
    """
    pipe = _Pipe(path)
    try:
        yield pipe.theirs
    finally:
        os.close(pipe.theirs)
        pipe.begin()


def catch_up(path: Path | int) -> None:
    """Takes what has been printed for `path` so far: all of it is in the file then."""
    with _lock:
        for pipe in _open.get(str(path), ()):
            pipe.take()


def end_of(file: int, limit: int = KEPT_MAX) -> str:
    """The end of what has been printed so far into a file without a name."""
    catch_up(file)
    size = os.fstat(file).st_size
    return os.pread(file, limit, max(0, size - limit)).decode("utf-8", "replace").strip()


def finish(path: Path, *, timeout_s: float) -> None:
    """Takes all that is printed for `path` until its processes have ended; the file changes no
    more, even if one has not within `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    with _lock:
        pipes = list(_open.get(str(path), ()))
    for pipe in pipes:
        pipe.thread.join(max(0.0, deadline - time.monotonic()))
    with _lock:
        for pipe in _open.get(str(path), ()):
            pipe.take()
            pipe.kept = False


class _Pipe:
    def __init__(self, path: Path | int) -> None:
        self.kept = True
        self.thread = threading.Thread(target=self._run, name="printed", daemon=True)
        self._name = str(path)
        if isinstance(path, int):
            self._file = os.dup(path)
            fcntl.fcntl(path, fcntl.F_SETFL, os.O_APPEND)
        else:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._ours, self.theirs = os.pipe2(os.O_CLOEXEC)
        os.fchmod(self.theirs, 0o666)  # QEMU opens it anew, by /proc, and may be another user
        os.set_blocking(self._ours, False)
        with contextlib.suppress(OSError):  # the user has many pipes
            fcntl.fcntl(self._ours, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def begin(self) -> None:
        with _lock:
            _open.setdefault(self._name, []).append(self)
        self.thread.start()

    def take(self) -> bool:
        """Takes what is there, and no more than a pipe holds; False at the end."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(_PIPE_BYTES // _CHUNK):
                data = os.read(self._ours, _CHUNK)
                if not data:
                    return False
                if self.kept:
                    with contextlib.suppress(OSError):  # no room: the process goes on all the same
                        self._keep(data)
        return True

    def _keep(self, data: bytes) -> None:
        os.write(self._file, data)
        size = os.fstat(self._file).st_size
        if size > KEPT_MAX:
            end = os.pread(self._file, KEPT_MAX // 2, size - KEPT_MAX // 2)
            os.ftruncate(self._file, 0)
            os.write(self._file, _CUT_OFF + end)

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._ours, select.POLLIN)
        there = True
        while there:
            poll.poll()
            with _lock:
                there = self.take()
        with _lock:
            _open[self._name].remove(self)
            if not _open[self._name]:
                del _open[self._name]
            os.close(self._ours)
            os.close(self._file)


def lines_of(error: int, text: str) -> tuple[str, ...]:
    """Lines of what a process printed that speak of an errno: perhaps it was refused something,
    perhaps these are its own words."""
    said = os.strerror(error)
    return tuple(" ".join(line.split()) for line in text.splitlines() if said in line)


def tail(path: Path, limit: int = TAIL_BYTES) -> str:
    """The last `limit` bytes of a file as text; empty if there is none.

    What a guest or a program prints has no end; of all that only so much is read.
    """
    catch_up(path)
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - limit))
            return file.read(limit).decode("utf-8", "backslashreplace").replace("\r", "").strip()
    except OSError:
        return ""
