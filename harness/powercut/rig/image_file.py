# SPDX-License-Identifier: Apache-2.0
"""A crash state as a file: the base image with writes over it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from powercut.mapped import stretches
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
            for begin, end in stretches(old.fileno(), size):
                _copy(old.fileno(), new.fileno(), begin, end)
            for write in writes:
                data = bytes(write.length) if write.data is None else write.data.tobytes()
                done = 0
                while done < len(data):
                    done += os.pwrite(new.fileno(), data[done:], write.offset + done)
    except OSError as error:
        raise HostError(
            f"{target}: {error.strerror}", hint="free some space, or set TMPDIR to where there is"
        ) from error


def _copy(old: int, new: int, begin: int, end: int) -> None:
    while begin < end:
        data = os.pread(old, min(1 << 20, end - begin), begin)
        begin += os.pwrite(new, data, begin)  # where the disk gets full, it writes a part first
