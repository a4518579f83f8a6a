# SPDX-License-Identifier: Apache-2.0
"""A program that keeps numbers through mappings, or while another thread syncs.

    python3 folder_mapped.py WAY DIR      makes 1 to 12 durable, one after the other

Ways:

- sync, syncfs, sync32: stores to a mapping, and sync(2), syncfs(2), or sync(2) by the number that
  32-bit programs call it by;
- data-first, header-first: the record in the file `log`, and a header in a mapping which says how
  many there are; header-first stores it before the record is durable;
- other-thread, too-early: another thread syncs all the time; too-early waits for a sync to begin,
  and not to end.

It needs no package: it runs as `python3 -I -S`.  `check DIR` says what is there.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
from pathlib import Path

OPERATIONS = 12
SIZE = 16384
_SYNC_32 = bytes.fromhex("53b824000000cd805bc3")  # push rbx; mov eax, 36; int 0x80; pop rbx; ret


class Keeper:
    """`keep(n)` is what a way does for each number."""

    def __init__(self, way: str, folder: str) -> None:
        self.way = way
        self.lines = int(os.environ["POWERCUT_FD"])
        directory = os.open(folder, os.O_RDONLY)
        self.log = self._made(Path(folder, "log"), SIZE if way.startswith("sync") else 0)
        self.mapping = mmap.mmap(self.log, SIZE) if way.startswith("sync") else None
        if way.endswith("-first"):
            self.header = mmap.mmap(self._made(Path(folder, "header"), SIZE), SIZE)
        os.fsync(directory)
        self.syncs = threading.Condition()
        self.begun = self.ended = 0
        if way in ("other-thread", "too-early"):
            threading.Thread(target=self._sync_on, daemon=True).start()

    @staticmethod
    def _made(path: Path, size: int) -> int:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        os.ftruncate(file, size)
        os.fsync(file)
        return file

    def run(self) -> None:
        self.say("ready")
        for number in range(1, OPERATIONS + 1):
            self.say(f"? {number}")
            self.keep(number, f"{number:3}\n".encode())
            self.say(f"+ {number}")

    def say(self, text: str) -> None:
        os.write(self.lines, f"{text}\n".encode())

    def keep(self, number: int, record: bytes) -> None:
        at = 4 * (number - 1)
        if self.mapping is not None:
            self.mapping[at : at + 4] = record
            {"sync": os.sync, "syncfs": self._syncfs, "sync32": self._sync_32}[self.way]()
        elif self.way.endswith("-first"):
            if self.way == "header-first":
                self.header[0:4] = record
            os.pwrite(self.log, record, at)
            os.fdatasync(self.log)
            self.header[0:4] = record
            self.header.flush()
        else:
            before = self.begun
            os.pwrite(self.log, record, at)
            self._wait(before)

    def _syncfs(self) -> None:
        assert ctypes.CDLL(None).syncfs(self.log) == 0

    def _sync_32(self) -> None:
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(_SYNC_32)
        address = ctypes.addressof(ctypes.c_char.from_buffer(code))
        assert ctypes.CFUNCTYPE(ctypes.c_int)(address)() == 0

    def _sync_on(self) -> None:
        while True:
            with self.syncs:
                self.begun += 1
                self.syncs.notify_all()
            os.fdatasync(self.log)
            with self.syncs:
                self.ended = self.begun
                self.syncs.notify_all()

    def _wait(self, before: int) -> None:
        with self.syncs:
            wanted = self.begun + 1
            if self.way == "too-early":
                self.syncs.wait_for(lambda: self.begun > before)
            else:
                self.syncs.wait_for(lambda: self.ended >= wanted)


def found(folder: Path) -> str:
    """What is there; a header that counts more records than there are contradicts them."""
    log, header = folder / "log", folder / "header"
    lines = log.read_bytes().split(b"\n") if log.exists() else []
    kept = [number for number, line in enumerate(lines, 1) if line == b"%3d" % number]
    text = "".join(f"= {number}\n" for number in kept)
    counted = header.read_bytes()[:3].strip(b"\0 \n") if header.exists() else b""
    if counted and int(counted) > len(kept):
        text += f"bad the header counts {int(counted)}, and there are {len(kept)}\n"
    return text


if __name__ == "__main__":
    if sys.argv[1] == "check":
        os.write(int(os.environ["POWERCUT_FD"]), found(Path(sys.argv[2])).encode())
    else:
        Keeper(*sys.argv[1:]).run()
