# SPDX-License-Identifier: Apache-2.0
"""Paths that a user named, or that lie in a folder from elsewhere.

open(2) of a pipe waits for its other end, and what a device says may have no end: so each is looked
at before it is opened.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from powercut.model.errors import UsageError

_SPECIAL: Final = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
}
_SHOWN_MAX: Final = 120
_FOLDERS_MAX: Final = 100_000


def openable(path: Path) -> Path:
    """`path`, which may be opened: it is a file, a folder or a block device, or not there.

    Raises OSError for anything else, as open(2) would for what cannot be read.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # it is said by whoever opens it
        return path
    if what := _SPECIAL.get(stat.S_IFMT(mode)):
        raise OSError(errno.EINVAL, f"{what}, and no file or folder", str(path))
    return path


def shown(text: str, most: int = _SHOWN_MAX) -> str:
    """What a user wrote as messages name it: short, whatever it is."""
    return text if len(text) <= most else f"{text[:most]}..."


def files_below(folder: Path, pattern: str, *, of_results: bool = True) -> list[Path]:
    """The files below `folder` whose names match, sorted; a folder that cannot be read has none.

    Without recursion: folders may be nested deeper than Python calls.  Raises UsageError if there
    are more folders than results ever have, unless it is a program's, which may have any number.
    """
    found: list[Path] = []
    left, seen = [str(folder)], 0
    while left:
        seen += 1
        if of_results and seen > _FOLDERS_MAX:
            raise UsageError(
                f"{folder}: it has more than {_FOLDERS_MAX:,} folders below it",
                hint="name the folder that is meant",
            )
        with suppress(OSError), os.scandir(left.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)
                elif fnmatch.fnmatch(entry.name, pattern):
                    found.append(Path(entry.path))
    return sorted(found)
