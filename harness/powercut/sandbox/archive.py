# SPDX-License-Identifier: Apache-2.0
"""The one reader of archives from outside: a process in a sandbox reads them.

Neither what undoes a compression nor the parser of headers runs in this process.  They run in one
that sees the archive and nothing else of the host (archive_inside.py), under limits of processor
time, memory and files.  It leaves an index of the members, of which nothing is believed: each line
is checked here by the same limits, and bytes are read only where the file has some.
"""

from __future__ import annotations

import io
import signal
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Final

from powercut.model.errors import HostError
from powercut.model.named_path import openable
from powercut.model.printable import parse_json
from powercut.sandbox import archive_inside, confined
from powercut.sandbox.archive_inside import KINDS, ArchiveLimits, Bounds, opener_of
from powercut.sandbox.confined import REMEDY, ToolLimits, run_confined

_MEMORY_MAX: Final = 1 << 30
_LINE_MAX: Final = 64 << 10
"""Bytes of a line of the index: two names of 4,096 characters, of which each takes 6 at most."""

_INDEX_MAX: Final = 4 << 30
_EXPANDED_PER_S: Final = 4 << 20
"""Compressed bytes that a second of processor time is enough for, of each format."""

_START_S: Final = 60  # of Python, on an emulated processor, too
_WAIT: Final = 4  # a busy host gives it a quarter of a processor
_SAID_MAX: Final = 500
_PREFIX: Final = "powercut-archive-"
_ROOM: Final = "free some space, or set TMPDIR to where there is"
_MODE_MAX: Final = 0o7777


class Archive:
    """The members of an archive, in its order."""

    def __init__(self, index: IO[bytes], data: IO[bytes], limits: ArchiveLimits) -> None:
        self._index = index
        self._data = data
        self._size = data.seek(0, io.SEEK_END)
        self._bounds = Bounds(limits)

    def __iter__(self) -> Iterator[tarfile.TarInfo]:
        while (member := self.next()) is not None:
            yield member

    def next(self) -> tarfile.TarInfo | None:
        """The next member; None at the end.  Raises tarfile.ReadError."""
        line = self._index.readline(_LINE_MAX)
        if not line:
            return None
        try:
            member = _member(parse_json(line))
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise tarfile.ReadError(f"its reader was taken over: {error}") from error
        self._bounds.admit(member)
        if member.isreg() and not 0 <= member.offset_data <= self._size - member.size:
            raise tarfile.ReadError(f"{member.name!r} is cut off")
        return member

    def open(self, member: tarfile.TarInfo) -> IO[bytes] | None:
        """The bytes of a regular file; None for what has none."""
        if not member.isreg():
            return None
        return io.BufferedReader(_Part(self._data, member.offset_data, member.size))


class _Part(io.RawIOBase):
    """A part of a file, which may be read beside others."""

    def __init__(self, file: IO[bytes], at: int, size: int) -> None:
        super().__init__()
        self._file, self._at, self._end = file, at, at + size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        wanted = min(len(buffer), self._end - self._at)
        if not wanted:
            return 0
        self._file.seek(self._at)
        data = self._file.read(wanted)
        if not data:
            raise tarfile.ReadError("it was cut off while it was read")
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


@contextmanager
def open_archive(
    path: Path, limits: ArchiveLimits, scratch: Path, *, from_outside: bool = True
) -> Iterator[Archive]:
    """The archive at `path`, compressed or not; its members can be read in any order.

    `scratch` is a folder for its index, and for what it is without its compression.  An archive
    `from_outside` is not read where there is no sandbox.  Raises tarfile.ReadError, OSError,
    HostError.
    """
    with openable(path).open("rb") as file, ExitStack() as stack:
        try:
            made = stack.enter_context(tempfile.TemporaryDirectory(prefix=_PREFIX, dir=scratch))
        except OSError as error:
            raise HostError(f"{scratch}: {error.strerror}", hint=_ROOM) from error
        plain, index = Path(made) / "plain", Path(made) / "index"
        plain.touch()
        index.touch()
        _read(path, plain, index, limits, from_outside=from_outside)
        listed = stack.enter_context(index.open("rb"))
        expanded = stack.enter_context(plain.open("rb"))
        yield Archive(listed, file if opener_of(file) is None else expanded, limits)


def _read(
    path: Path, plain: Path, index: Path, limits: ArchiveLimits, *, from_outside: bool
) -> None:
    if from_outside and (why := confined.sandboxes().none):
        raise HostError(f"{path}: there is no sandbox to read an archive in: {why}", hint=REMEDY)
    library = find_spec("zstandard")
    assert library is not None
    assert library.origin is not None
    folder = Path(library.origin).parent
    module, python = Path(archive_inside.__file__), Path(sys.executable).resolve()
    wanted = (limits.members, limits.size, limits.depth, limits.header_s, limits.only_first)
    words = [str(path.absolute()), str(plain), str(index), *map(str, wanted), str(folder)]
    cpu_s = int(limits.header_s + path.stat().st_size / _EXPANDED_PER_S) + _START_S
    done = run_confined(
        [str(python), "-I", "-S", "-B", str(module), *words],
        timeout_s=cpu_s * _WAIT,
        files=[plain, index],
        reads=[path, module, folder, Path(sys.base_prefix)],
        from_outside=from_outside,
        limits=ToolLimits(memory=_MEMORY_MAX, file_size=max(limits.plain, _INDEX_MAX), cpu_s=cpu_s),
    )
    said = "".join(one if one.isprintable() else " " for one in done.stderr.strip()[-_SAID_MAX:])
    if done.returncode == archive_inside.REFUSED:
        raise tarfile.ReadError(said)
    if done.returncode == archive_inside.NO_ROOM:
        raise HostError(
            f"{path}: what it holds cannot be kept in {index.parent.parent}: {said}", hint=_ROOM
        )
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        raise tarfile.ReadError(f"it takes more than {cpu_s} s of processor time to read")
    if done.returncode < 0:
        raise tarfile.ReadError(f"its reader was ended by signal {-done.returncode}")
    if done.returncode:
        raise HostError(
            f"{path}: the reader of archives ended with status {done.returncode}: {said}",
            hint="`powercut doctor` says whether the sandbox works",
        )


def _member(row: Any) -> tarfile.TarInfo:
    """A line of the index.  Raises ValueError, TypeError, KeyError for what is none."""
    name, kind, mode, owner, group, size, changed, link, offset = row
    numbers = (mode, owner, group, size, offset)
    if not all(type(one) is str for one in (name, kind, link)):
        raise TypeError("a name that is no text")
    if not all(type(one) is int for one in numbers) or type(changed) not in (int, float):
        raise TypeError("a number that is none")
    if not 0 <= mode <= _MODE_MAX:
        raise ValueError(f"a mode of {mode:o}")
    member = tarfile.TarInfo(name)
    member.type, member.mode, member.uid, member.gid = KINDS[kind], mode, owner, group
    member.size, member.mtime, member.linkname, member.offset_data = size, changed, link, offset
    return member


__all__ = ["Archive", "ArchiveLimits", "open_archive"]
