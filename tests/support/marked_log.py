# SPDX-License-Identifier: Apache-2.0
"""A log as the kernel's dm-log-writes keeps it, of an ext4 that gets one file after the other.

debugfs writes it: in place, without a journal, so no state between two flushes need be whole.
After each file comes a flush, and a mark with its name.
"""

from __future__ import annotations

import struct
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

BLOCK = 4096
SIZE = 16 << 20
MAGIC, FLUSH, MARK = 0x6A736677736872, 1, 8

CHECK = """\
#!/bin/sh
# Every file up to that of the last mark, "fsync N", is there whole.
n=${POWERCUT_MARK#fsync }
while [ "$n" -gt 0 ]; do
    [ "$(cat "$1/f$n")" = "$(printf 'file %s\\n%1000s' "$n" .)" ] || { echo "f$n differs"; exit 1; }
    n=$((n - 1))
done
"""


@dataclass
class MarkedLog:
    """What is to be made in `folder`: base.img and log; `sector` in bytes."""

    folder: Path
    files: int = 3
    sector: int = 512
    early: frozenset[int] = frozenset()
    """Files whose mark was sent before anything of them was written."""

    again: frozenset[int] = frozenset()
    """Files that are removed after their mark, and flushed, and then made again, and marked."""

    marks: bool = True
    """False: as QEMU's blklogwrites has it, which knows none."""

    _entries: list[bytes] = field(default_factory=list)
    _image: bytes = b""

    @property
    def base(self) -> Path:
        return self.folder / "base.img"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def make(self) -> MarkedLog:
        """Both, new."""
        self.folder.mkdir(parents=True, exist_ok=True)
        image, source = self.folder / "work.img", self.folder / "source"
        image.write_bytes(b"")
        with image.open("r+b") as file:
            file.truncate(SIZE)
        subprocess.run(
            ["mke2fs", "-q", "-F", "-t", "ext4", "-b", str(BLOCK), "-O", "^has_journal", image],
            check=True,
        )
        self._image = image.read_bytes()
        self.base.write_bytes(self._image)
        for number in range(1, self.files + 1):
            source.write_text(f"file {number}\n{'.':>1000}")
            write = f"write {source} f{number}"
            if number in self.early:
                self._mark(f"fsync {number}")
            self._changed(image, write)
            if number not in self.early:
                self._mark(f"fsync {number}")
            if number in self.again:
                self._changed(image, f"rm f{number}")
                self._changed(image, write)
                self._mark(f"fsync {number}")
        self._mark("dm-log-writes-end")
        head = struct.pack("<QQQI", MAGIC, 1, len(self._entries), self.sector)
        self.log.write_bytes(head.ljust(self.sector, b"\0") + b"".join(self._entries))
        return self

    def _changed(self, image: Path, command: str) -> None:
        subprocess.run(["debugfs", "-w", "-R", command, image], check=True, capture_output=True)
        after, before = image.read_bytes(), self._image
        for place in range(0, SIZE, BLOCK):
            if after[place : place + BLOCK] != before[place : place + BLOCK]:
                self._entry(place, after[place : place + BLOCK])
        self._entry(0, b"", FLUSH)
        self._image = after

    def _entry(self, place: int, data: bytes, flags: int = 0, name: bytes = b"") -> None:
        where, count = place // self.sector, len(data) // self.sector
        head = struct.pack("<QQQQ", where, count, flags, len(name)) + name
        self._entries.append(head.ljust(self.sector, b"\0") + data)

    def _mark(self, name: str) -> None:
        if not self.marks:
            return
        self._entry(0, b"", MARK, name.encode())

    def check(self) -> Path:
        """A check of its files."""
        path = self.folder / "check.sh"
        path.write_text(CHECK)
        path.chmod(0o755)
        return path
