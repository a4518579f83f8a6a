# SPDX-License-Identifier: Apache-2.0
"""Which files hold the inode number of another, as a store does that knows its files by these.

In the folder of a crash state, which is made anew, files have other numbers; so such a store finds
none of its files there, although a machine that was cut would.
"""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Final

from powercut.model.named_path import files_below
from powercut.model.printable import printable

_SEARCHED_MAX: Final = 1 << 20
"""Bytes of a file."""

_FILES_MAX: Final = 256
_NUMBER_MIN: Final = 10_000
"""Numbers below stand in files for other reasons."""

_DECIMAL: Final = re.compile(rb"[0-9]{5,20}")
_WORD: Final = 8


def kept_inodes(folder: Path) -> tuple[str, ...]:
    """Their paths in `folder`, as far as can be seen soon: numbers in decimal digits, or as a word
    of 8 bytes where such a word would lie."""
    files = []
    for path in files_below(folder, "*", of_results=False)[:_FILES_MAX]:
        try:
            if stat.S_ISREG((found := path.lstat()).st_mode):
                files.append((path, found.st_ino))
        except OSError:  # it has gone
            continue
    numbers = {number for _, number in files if number >= _NUMBER_MIN}
    holding = (path for path, own in files if _numbers_in(path) & (numbers - {own}))
    return tuple(printable(str(path.relative_to(folder))) for path in holding)


def _numbers_in(path: Path) -> set[int]:
    try:
        with path.open("rb") as file:
            data = file.read(_SEARCHED_MAX)
    except OSError:
        return set()
    words = memoryview(data)[: len(data) // _WORD * _WORD].cast("Q")
    return {int(digits) for digits in _DECIMAL.findall(data)} | set(words)
