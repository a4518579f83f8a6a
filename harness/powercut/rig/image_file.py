# SPDX-License-Identifier: Apache-2.0
"""A crash state as a file: the base image with writes over it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from powercut.model.errors import HostError
from powercut.recover.port import ImageWrite


def write_image(base: Path, writes: Sequence[ImageWrite], target: Path) -> None:
    """A new file `target`: the base image with `writes` over it; holes stay holes.

    Raises HostError if there is no room.
    """
    try:
        with base.open("rb") as old, target.open("xb") as new:
            size = os.fstat(old.fileno()).st_size
            new.truncate(size)
            for begin, end in _filled(old.fileno(), size):
                _copy(old.fileno(), new.fileno(), begin, end)
            for write in writes:
                data = bytes(write.length) if write.data is None else write.data.tobytes()
                os.pwrite(new.fileno(), data, write.offset)
    except OSError as error:
        raise HostError(
            f"{target}: {error.strerror}", hint="free some space, or set TMPDIR to where there is"
        ) from error


def _filled(fd: int, size: int) -> list[tuple[int, int]]:
    """Where the file is not a hole."""
    filled = []
    position = 0
    while position < size:
        try:
            begin = os.lseek(fd, position, os.SEEK_DATA)
        except OSError:  # ENXIO: nothing but a hole is left
            break
        position = os.lseek(fd, begin, os.SEEK_HOLE)
        filled.append((begin, position))
    return filled


def _copy(old: int, new: int, begin: int, end: int) -> None:
    while begin < end:
        data = os.pread(old, min(1 << 20, end - begin), begin)
        os.pwrite(new, data, begin)
        begin += len(data)
