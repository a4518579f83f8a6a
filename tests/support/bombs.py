# SPDX-License-Identifier: Apache-2.0
"""Small inputs that mean much, each read in a process of its own: bombs.py NAME FOLDER

Prints what the reader says, and what it took of this process: processor seconds, MiB of memory,
both without those of the start.
"""

from __future__ import annotations

import io
import resource
import socket
import sys
import tarfile
import threading
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from read_here import archives_read_here

from powercut.channel.line_sources import StreamSource
from powercut.disk.root_image import RootTree
from powercut.model.errors import PowercutError
from powercut.sandbox.archive_inside import ArchiveLimits, open_tar

END = bytes(1024)


def header(name: str, size: int = 0, kind: bytes = b"0") -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def long_name(name: str) -> bytes:
    body = name.encode() + b"\0"
    return (
        header("././@LongLink", len(body), tarfile.GNUTYPE_LONGNAME)
        + body
        + bytes(-len(body) % 512)
        + header("x")
    )


def tree(folder: Path, *layers: Iterable[bytes]) -> int:
    with RootTree(scratch=folder) as made:
        for number, members in enumerate(layers):
            path = folder / f"{number}.tar"
            with path.open("wb") as file:
                file.writelines(members)
                file.write(END)
            made.add(path)
        made.write(io.BytesIO())
        return len(made)


def nested(folder: Path) -> object:
    """1,500 folders within folders, the last one with its whole path."""
    return tree(folder, [long_name("d/" * 1500 + "x")])


def nested_much(folder: Path) -> object:
    """As deep as is allowed, 1,500 times."""
    deep = "d/" * 250
    return tree(folder, [long_name(f"{deep}{number}") for number in range(1500)])


def whiteouts(folder: Path) -> object:
    """40,000 whiteouts above 40,000 files."""
    return tree(
        folder,
        [header(f"d/{number}") for number in range(40_000)],
        [header(f"d/.wh.{number}") for number in range(40_000)],
    )


def pax_header(folder: Path) -> object:
    """A header of 3 GiB, which is a hole of the file."""
    path = folder / "x.tar"
    with path.open("wb") as file:
        file.write(header("x", 3 << 30, tarfile.XHDTYPE))
        file.truncate((3 << 30) + 512)
    with RootTree(scratch=folder) as made:
        made.add(path)
        return len(made)


class _Repeated(io.RawIOBase):
    """The same header, so many times."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._header, self._left = header("x"), count * 512

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        size = min(size, self._left)
        self._left -= size
        return (self._header * (size // 512 + 1))[:size]


def members(_: Path) -> object:
    """4 million members in a stream, of which 40,000 are allowed."""
    limits = ArchiveLimits(members=40_000, size=1 << 30)
    with open_tar(_Repeated(4_000_000), limits, stream=True) as tar:  # type: ignore[arg-type]
        return sum(1 for _ in tar)


def sparse(folder: Path) -> object:
    """A file of holes, whose map goes on in 100,000 headers."""
    block = bytearray(header("x", 0, tarfile.GNUTYPE_SPARSE))
    block[482] = 1  # isextended (tar.h of GNU tar)
    block[148:156] = b"%06o\0 " % (256 + sum(block[:148]) + sum(block[156:]))
    more = bytearray(512)
    more[504] = 1
    return tree(folder, [bytes(block), bytes(more) * 100_000])


def endless_line(_: Path) -> object:
    """64 MiB of a program without the end of a line."""
    ours, theirs = socket.socketpair()

    def say() -> None:
        with theirs:
            for _ in range(64):
                theirs.sendall(b"+" * (1 << 20))

    speaker = threading.Thread(target=say)
    speaker.start()
    longest = 0
    with closing(StreamSource(ours)) as source:
        while packet := source.next():
            longest = max(longest, len(packet.data))
    speaker.join()
    return longest


BOMBS = {
    one.__name__: one
    for one in (
        nested, nested_much, whiteouts, pax_header, members, sparse, endless_line,
    )
}  # fmt: skip


def _peak() -> int:
    """Of this program alone: getrusage also has what was there before exec."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise LookupError("VmHWM")


def _seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """For the test."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    seconds, peak = _seconds(), _peak()
    try:
        with archives_read_here():
            said = f"read: {BOMBS[name](folder)}"
    except (PowercutError, tarfile.TarError) as error:
        said = f"refused: {error}"
    said = said.replace("\n", " ")
    sys.stdout.write(f"{_seconds() - seconds:.2f} {(_peak() - peak) >> 20} {said}\n")


if __name__ == "__main__":
    main()
