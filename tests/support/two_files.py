# SPDX-License-Identifier: Apache-2.0
"""Keeps numbers in two files, values and their index; the way `forgets` syncs one file too few.

    python3 two_files.py run DIR WAY      makes 1 to 12 durable; of 12, `forgets` syncs values alone
    python3 two_files.py check DIR        says which are in both

It needs no package: it runs as `python3 -I -S`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

OPERATIONS = 12
LINES = int(os.environ["POWERCUT_FD"])


def say(text: str) -> None:
    os.write(LINES, f"{text}\n".encode())


def run(folder: Path, way: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT
    values = os.open(folder / "values", flags, 0o644)
    index = os.open(folder / "index", flags, 0o644)
    os.fsync(os.open(folder, os.O_RDONLY))
    say("ready")
    for number in range(1, OPERATIONS + 1):
        say(f"? {number}")
        at = 4 * (number - 1)
        os.pwrite(values, f"{number:3}\n".encode(), at)
        os.pwrite(index, f"{at:3}\n".encode(), at)
        os.fdatasync(values)
        if not (way == "forgets" and number == OPERATIONS):
            os.fdatasync(index)
        say(f"+ {number}")


def check(folder: Path) -> None:
    values, index = (
        (folder / name).read_text().split("\n") if (folder / name).exists() else []
        for name in ("values", "index")
    )
    for number, (value, at) in enumerate(zip(values, index, strict=False), 1):
        if (value, at) == (f"{number:3}", f"{4 * (number - 1):3}"):
            say(f"= {number}")


if __name__ == "__main__":
    if sys.argv[1] == "check":
        check(Path(sys.argv[2]))
    else:
        run(Path(sys.argv[2]), sys.argv[3])
