# SPDX-License-Identifier: Apache-2.0
"""The one reader of archives from outside: Python's tarfile, under limits.

tarfile reads whatever a header announces: a pax header of 3 GiB into memory, a map of holes as long
as the archive, headers about headers by recursion, a size below zero backwards.  Here a header has
a bound, an archive has so many members, of so many bytes and so deep, and its headers take so much
processor time.  What goes beyond is `tarfile.ReadError`, like any damage.

What compresses an archive is undone once, into a file, and likewise bounded: tarfile would begin
anew for each member that is read out of turn.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import math
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Literal, cast

import zstandard

_HEADER_MAX: Final = 64 << 10
"""Bytes in a header about a header: pax records, a long name."""

_HEADERS_MAX: Final = 4  # in a row: global and own pax records, a long name, a long link
_NAME_MAX: Final = 4096  # PATH_MAX
_NAMES_MAX: Final = 256 << 20  # all of them
_TIME_MAX: Final = 1 << 40
_OWNER_MAX: Final = (1 << 32) - 1
_CHUNK: Final = 1 << 20
_DAMAGE: Final = (
    EOFError,
    OSError,
    ValueError,
    lzma.LZMAError,
    zlib.error,
    zstandard.ZstdError,
)
_SECONDS: Final = 300.0

_ABOUT_HEADERS: Final = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
_Opener = Callable[[IO[bytes]], IO[bytes]]
_COMPRESSED: Final[dict[bytes, _Opener]] = {
    b"\x1f\x8b": lambda file: cast("IO[bytes]", gzip.GzipFile(fileobj=file)),
    b"BZh": lambda file: cast("IO[bytes]", bz2.BZ2File(file)),
    b"\xfd7zXZ": lambda file: cast("IO[bytes]", lzma.LZMAFile(file)),  # noqa: SIM115
    b"\x28\xb5\x2f\xfd": lambda file: cast(
        "IO[bytes]", zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
    ),
}


@dataclass(frozen=True)
class ArchiveLimits:
    """What an archive may have: members, bytes of their contents, folders within folders."""

    members: int
    size: int
    depth: int = 256
    header_s: float = _SECONDS
    """Processor time for all headers."""


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
        with _Reader.open(fileobj=file, mode=mode, tarinfo=_Member) as tar:
            yield BoundedTar(tar, limits)
    except (ValueError, OverflowError, RecursionError, UnicodeError) as error:
        raise tarfile.ReadError(f"a header makes no sense: {error}") from error


class BoundedTar:
    """The members of an archive."""

    def __init__(self, tar: _Reader, limits: ArchiveLimits) -> None:
        self._tar = tar
        self._limits = limits
        self._members = 0
        self._names = 0
        self._size = 0
        self._seconds = 0.0

    def __iter__(self) -> Iterator[tarfile.TarInfo]:
        while (member := self.next()) is not None:
            yield member

    def next(self) -> tarfile.TarInfo | None:
        """The next member; None at the end."""
        begin = time.thread_time()
        member = self._tar.next()
        self._tar.members = []  # it keeps all that it has read
        self._seconds += time.thread_time() - begin
        if self._seconds > self._limits.header_s:
            raise tarfile.ReadError(f"its headers take more than {self._limits.header_s:g} s")
        if member is None:
            return None
        self._members += 1
        self._size += member.size
        if self._members > self._limits.members:
            raise tarfile.ReadError(f"more than {self._limits.members:,} members")
        if member.size < 0 or self._size > self._limits.size:
            raise tarfile.ReadError(f"more than {self._limits.size:,} bytes in its members")
        self._check(member)
        return member

    def _check(self, member: tarfile.TarInfo) -> None:
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
        member.pax_headers, member.uname, member.gname = {}, "", ""  # kept, they would be memory

    def open(self, member: tarfile.TarInfo) -> IO[bytes] | None:
        """The bytes of a regular file; None for what has none."""
        return self._tar.extractfile(member) if member.isreg() else None


@contextmanager
def open_archive(path: Path, limits: ArchiveLimits, scratch: Path) -> Iterator[BoundedTar]:
    """The archive at `path`, compressed or not; its members can be read in any order.

    `scratch` is a folder for what it is without its compression.  Raises tarfile.ReadError,
    OSError.
    """
    with path.open("rb") as file:
        opener = _opener(file)
        if opener is None:
            with open_tar(file, limits) as tar:
                yield tar
            return
        with tempfile.TemporaryFile(dir=scratch) as plain:
            _expand(opener(file), plain, limits)
            with open_tar(plain, limits) as tar:
                yield tar


def _opener(file: IO[bytes]) -> _Opener | None:
    begin = file.read(8)
    file.seek(0)
    return next((one for magic, one in _COMPRESSED.items() if begin.startswith(magic)), None)


def _expand(packed: IO[bytes], plain: IO[bytes], limits: ArchiveLimits) -> None:
    """Undoes the compression, as far as members and headers within the limits can go."""
    left = limits.size + (limits.members + 1) * 4 * tarfile.BLOCKSIZE + _CHUNK
    try:
        while data := packed.read(_CHUNK):
            left -= len(data)
            if left < 0:
                raise tarfile.ReadError(f"more than {limits.size:,} bytes in its members")
            plain.write(data)
    except _DAMAGE as error:
        raise tarfile.ReadError(f"its compression is damaged: {error}") from error
    plain.seek(0)
