# SPDX-License-Identifier: Apache-2.0
"""A program that keeps a number durable, in one of several ways; most are wrong.

    python3 folder_program.py WAY DIR      makes 1 to 12 durable, one after the other

It needs no package: it runs as `python3 -I -S`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

OPERATIONS = 12


class Keeper:
    """`keep(n)` is what a way does for each number."""

    def __init__(self, way: str, folder: str) -> None:
        self.way, self.folder = way, Path(folder)
        self.lines = int(os.environ["POWERCUT_FD"])
        self.directory = os.open(folder, os.O_RDONLY)
        self.log = -1

    def say(self, text: str) -> None:
        os.write(self.lines, f"{text}\n".encode())

    def run(self) -> None:
        if not self.way.startswith("replace"):
            self._open_log()
        self.say("ready")
        for number in range(1, OPERATIONS + 1):
            self.say(f"? {number}")
            if self.way.startswith("replace"):
                self._replace(number)
            else:
                self._append(number)
            self.say(f"+ {number}")

    def _open_log(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | (os.O_DSYNC if self.way == "append-dsync" else 0)
        self.log = os.open(self.folder / "log", flags, 0o644)
        if self.way != "append-name-unsynced":
            os.fsync(self.directory)

    def _append(self, number: int) -> None:
        os.pwrite(self.log, f"{number:3}\n".encode(), 4 * (number - 1))
        last = number == OPERATIONS
        if self.way == "append-sync-all":
            os.sync()
        elif self.way not in ("append-unsynced", "append-dsync") and not (
            self.way == "append-last-unsynced" and last
        ):
            os.fdatasync(self.log)

    def _replace(self, number: int) -> None:
        """The file `log` holds all numbers so far, and is replaced by another."""
        text = "".join(f"{one:3}\n" for one in range(1, number + 1)).encode()
        path = self.folder / "log"
        new = path if self.way == "replace-truncating" else self.folder / "log.new"
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.write(file, text)
        if self.way != "replace-contents-unsynced":
            os.fsync(file)
        os.close(file)
        if new != path:
            new.rename(path)
        if self.way != "replace-name-unsynced":
            os.fsync(self.directory)


if __name__ == "__main__":
    Keeper(*sys.argv[1:]).run()
