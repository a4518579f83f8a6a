# SPDX-License-Identifier: Apache-2.0
"""Reads an archive inside a sandbox: undoes its compression, and lists its members.

    python -I -S archive_inside.py ARCHIVE PLAIN INDEX MEMBERS SIZE DEPTH SECONDS FIRST ZSTANDARD

It is run as a file, and imports nothing of powercut.  PLAIN becomes the archive without its
compression, with holes where it is zero; it stays empty if there is none.  INDEX gets a line of
JSON for each member: name, kind, mode, owner, group, size, time, link, where its bytes begin.
FIRST is True for the first member alone.  ZSTANDARD is the folder of that library.

The parser is Python's tarfile, which reads whatever a header announces: a pax header of 3 GiB into
memory, a map of holes as long as the archive, headers about headers by recursion, a size below zero
backwards.  Here a header has a bound, an archive has so many members, of so many bytes and so deep,
and its headers take so much processor time.  What goes beyond is `tarfile.ReadError`, like any
damage: status 3, with the reason on standard error.  Status 4: there is no room for PLAIN or INDEX.
"""

from __future__ import annotations

import bz2
import gzip
import importlib.util
import json
import lzma
import math
import resource
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Literal, cast

REFUSED: Final = 3
NO_ROOM: Final = 4

_HEADER_MAX: Final = 64 << 10
"""Bytes in a header about a header: pax records, a long name."""

_HEADERS_MAX: Final = 4  # in a row: global and own pax records, a long name, a long link
_NAME_MAX: Final = 4096  # PATH_MAX
_NAMES_MAX: Final = 256 << 20  # all of them
_TIME_MAX: Final = 1 << 40
_OWNER_MAX: Final = (1 << 32) - 1
_CHUNK: Final = 1 << 20
_HOLE: Final = bytes(64 << 10)
_SECONDS: Final = 300.0

_ABOUT_HEADERS: Final = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
KINDS: Final = {
    "file": tarfile.REGTYPE,
    "folder": tarfile.DIRTYPE,
    "symlink": tarfile.SYMTYPE,
    "link": tarfile.LNKTYPE,
    "other": tarfile.FIFOTYPE,
}
"""What a member is, as the index calls it."""


def _zstd(file: IO[bytes]) -> IO[bytes]:
    zstandard = importlib.import_module("zstandard")  # from where main is told, if it is run
    reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
    return cast("IO[bytes]", reader)


_COMPRESSED: Final[dict[bytes, Callable[[IO[bytes]], IO[bytes]]]] = {
    b"\x1f\x8b": lambda file: cast("IO[bytes]", gzip.GzipFile(fileobj=file)),
    b"BZh": lambda file: cast("IO[bytes]", bz2.BZ2File(file)),
    b"\xfd7zXZ": lambda file: cast("IO[bytes]", lzma.LZMAFile(file)),  # noqa: SIM115
    b"\x28\xb5\x2f\xfd": _zstd,
}


@dataclass(frozen=True)
class ArchiveLimits:
    """What an archive may have: members, bytes of their contents, folders within folders."""

    members: int
    size: int
    depth: int = 256
    header_s: float = _SECONDS
    """Processor time for all headers."""

    only_first: bool = False
    """Only the first member is read, which says what else there should be."""

    @property
    def plain(self) -> int:
        """Bytes that it can have without its compression, with headers and what fills it up."""
        return self.size + (self.members + 1) * 4 * tarfile.BLOCKSIZE + _CHUNK


class Bounds:
    """What the members so far come to.  Raises tarfile.ReadError for one beyond the limits."""

    def __init__(self, limits: ArchiveLimits) -> None:
        self._limits = limits
        self._members = 0
        self._names = 0
        self._size = 0

    def admit(self, member: tarfile.TarInfo) -> None:
        """Counts one more member."""
        self._members += 1
        self._size += member.size
        if self._members > self._limits.members:
            raise tarfile.ReadError(f"more than {self._limits.members:,} members")
        if member.size < 0 or self._size > self._limits.size:
            raise tarfile.ReadError(f"more than {self._limits.size:,} bytes in its members")
        for name in (member.name, member.linkname):
            self._names += len(name)
            if len(name) > _NAME_MAX or "\0" in name:
                raise tarfile.ReadError(f"{name[:80]!r}... is no name")
            if name.count("/") > self._limits.depth:
                raise tarfile.ReadError(f"more than {self._limits.depth} folders within folders")
        if self._names > _NAMES_MAX:
            raise tarfile.ReadError("its names are too many and too long")
        if not (math.isfinite(member.mtime) and abs(member.mtime) < _TIME_MAX):
            raise tarfile.ReadError(f"{member.name!r} was changed at {member.mtime}")
        if not (0 <= member.uid <= _OWNER_MAX and 0 <= member.gid <= _OWNER_MAX):
            raise tarfile.ReadError(
                f"{member.name!r} belongs to {member.uid}:{member.gid}, which are none"
            )


class _Member(tarfile.TarInfo):
    """A member whose headers are bounded.  The names of what tarfile calls are not public."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.size < 0:
            raise tarfile.ReadError(f"a member of {self.size} bytes")
        if self.type == tarfile.GNUTYPE_SPARSE:
            raise tarfile.ReadError("a sparse file")
        reader = cast("_Reader", archive)
        if self.type in _ABOUT_HEADERS:
            reader.headers += 1
            if self.size > _HEADER_MAX:
                raise tarfile.ReadError(f"a header of {self.size} bytes")
            if reader.headers > _HEADERS_MAX:
                raise tarfile.ReadError(f"more than {_HEADERS_MAX} headers for one member")
        made: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        reader.headers = 0
        return made

    def _no_sparse(self, *_: Any) -> None:
        raise tarfile.ReadError("a sparse file")

    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _no_sparse


class _Reader(tarfile.TarFile):
    """tarfile's reader; it counts the headers of a member."""

    headers = 0
    members: list[tarfile.TarInfo]


@contextmanager
def open_tar(
    file: IO[bytes], limits: ArchiveLimits, *, stream: bool = False
) -> Iterator[BoundedTar]:
    """The archive in `file`, which is not compressed; a `stream` is read once and in order.

    Raises tarfile.ReadError, also while it is read.
    """
    mode: Literal["r|", "r:"] = "r|" if stream else "r:"
    try:
        with _Reader.open(fileobj=file, mode=mode, tarinfo=_Member, bufsize=len(_HOLE)) as tar:
            yield BoundedTar(tar, limits)
    except (ValueError, OverflowError, RecursionError, UnicodeError) as error:
        raise tarfile.ReadError(f"a header makes no sense: {error}") from error


class BoundedTar:
    """The members of an archive."""

    def __init__(self, tar: _Reader, limits: ArchiveLimits) -> None:
        self._tar = tar
        self._limits = limits
        self._bounds = Bounds(limits)
        self._seconds = 0.0

    def __iter__(self) -> Iterator[tarfile.TarInfo]:
        while (member := self.next()) is not None:
            yield member

    def next(self) -> tarfile.TarInfo | None:
        begin = time.thread_time()
        member = self._tar.next()
        self._tar.members = []  # it keeps all that it has read
        self._seconds += time.thread_time() - begin
        if self._seconds > self._limits.header_s:
            raise tarfile.ReadError(f"its headers take more than {self._limits.header_s:g} s")
        if member is not None:
            self._bounds.admit(member)
            member.pax_headers, member.uname, member.gname = {}, "", ""  # kept, they are memory
        return member


class _NoRoomError(Exception):
    """What was read does not fit on the disk."""


class _Expanding:
    """A compressed archive that is read once; what was read is in the file `plain`."""

    def __init__(self, packed: IO[bytes], plain: IO[bytes], limits: ArchiveLimits) -> None:
        self._packed = packed
        self._plain = plain
        self._limits = limits
        self._size = 0

    def read(self, size: int) -> bytes:
        try:
            data = self._packed.read(size)
        except MemoryError:
            raise
        except Exception as error:  # each library has its own kinds
            raise tarfile.ReadError(f"its compression is damaged: {error}") from error
        self._size += len(data)
        if self._size > self._limits.plain:
            raise tarfile.ReadError(f"more than {self._limits.size:,} bytes in its members")
        try:
            for at in range(0, len(data), len(_HOLE)):
                block = data[at : at + len(_HOLE)]
                if block == _HOLE[: len(block)]:
                    self._plain.seek(len(block), 1)
                else:
                    self._plain.write(block)
        except OSError as error:
            raise _NoRoomError(str(error.strerror)) from error
        return data

    def finish(self, end: float) -> None:
        """Reads on to `end`, or to the last byte: what is damaged there is damage, too."""
        while self._size < end and self.read(_CHUNK):
            pass
        self._plain.truncate(self._size)


def opener_of(file: IO[bytes]) -> Callable[[IO[bytes]], IO[bytes]] | None:
    """What undoes the compression of an archive; None if it has none that is known here."""
    begin = file.read(8)
    file.seek(0)
    return next((one for magic, one in _COMPRESSED.items() if begin.startswith(magic)), None)


def write_index(file: IO[bytes], plain: IO[bytes], index: IO[str], limits: ArchiveLimits) -> None:
    """Reads the archive in `file`.  Raises tarfile.ReadError, OSError where there is no room."""
    opener = opener_of(file)
    end = math.inf
    expanding = _Expanding(opener(file), plain, limits) if opener is not None else None
    source = cast("IO[bytes]", expanding) if expanding is not None else file
    with open_tar(source, limits, stream=expanding is not None) as tar:
        for member in tar:
            index.write(json.dumps(_row(member)) + "\n")
            if limits.only_first:
                end = member.offset_data + member.size
                break
    if expanding is not None:
        expanding.finish(end)


def _row(member: tarfile.TarInfo) -> list[str | int | float]:
    kind = "other"
    if member.isreg():
        kind = "file"
    elif member.isdir():
        kind = "folder"
    elif member.issym():
        kind = "symlink"
    elif member.islnk():
        kind = "link"
    owner = (member.mode & 0o7777, member.uid, member.gid)
    return [
        member.name, kind, *owner, member.size, member.mtime, member.linkname, member.offset_data
    ]  # fmt: skip


def _bring_zstandard(folder: str) -> None:
    """Makes the library known by its folder alone: those around it cannot be listed here."""
    init = Path(folder) / "__init__.py"
    spec = importlib.util.spec_from_file_location(
        "zstandard", init, submodule_search_locations=[folder]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules["zstandard"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def main(words: list[str]) -> int:
    """Reads an archive as the words say; the exit status."""
    archive, plain, index, members, size, depth, seconds, first = words[:8]
    limits = ArchiveLimits(int(members), int(size), int(depth), float(seconds), first == "True")
    try:
        with (
            Path(archive).open("rb") as file,
            Path(plain).open("wb") as expanded,
            Path(index).open("w", encoding="ascii") as listed,
        ):
            write_index(file, expanded, listed, limits)
    except tarfile.TarError as error:
        sys.stderr.write(f"{error}\n")
        return REFUSED
    except (_NoRoomError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return NO_ROOM
    return 0


if __name__ == "__main__":
    with suppress(OSError, ValueError):  # it starts no process; root's limit does not count
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    _bring_zstandard(sys.argv[9])
    try:
        sys.exit(main(sys.argv[1:]))
    except MemoryError:
        sys.stderr.write("it takes too much memory to read\n")
        sys.exit(REFUSED)
