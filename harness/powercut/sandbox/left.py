# SPDX-License-Identifier: Apache-2.0
"""What a program has left in the places that are empty for a check.

It may be at work still, and hostile: no symbolic link is followed, and the list has an end.  What
is mounted there is not the program's.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from powercut.model.outside import LeftFiles
from powercut.model.printable import printable

_LEFT_MAX: Final = 4096


def left_in(lies: Mapping[Path, Path]) -> LeftFiles:
    """The files that hold something, and the symbolic links, in each place, by where it `lies`."""
    errors: list[OSError] = []
    found = list(islice(_found(lies, errors), _LEFT_MAX + 1))
    return LeftFiles(tuple(found[:_LEFT_MAX]), bool(errors) or len(found) > _LEFT_MAX)


def _found(lies: Mapping[Path, Path], errors: list[OSError]) -> Iterator[str]:
    for place, below in lies.items():
        if not below.is_dir() or (place.exists() and below.samefile(place)):
            continue  # the host's own is shown there, which nothing writes to
        device = below.stat().st_dev
        for folder, folders, names, fd in os.fwalk(below, onerror=errors.append):
            shown = place / Path(folder).relative_to(below)
            for name in sorted([*names, *folders]):
                try:
                    status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                except OSError:  # it has gone
                    continue
                if status.st_dev != device:
                    folders.remove(name) if name in folders else None
                elif stat.S_ISLNK(status.st_mode) or _holds(status):
                    yield printable(str(shown / name))


def _holds(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_size > 0
