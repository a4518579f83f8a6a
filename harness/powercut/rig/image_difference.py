# SPDX-License-Identifier: Apache-2.0
"""In what one disk image differs from another."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from powercut.mapped import mapped, stretches
from powercut.model.errors import HostError
from powercut.recover.port import ImageWrite

_PART: Final = 1 << 20
_PAGE: Final = 4096


def changed_parts(base: Path, image: Path) -> list[ImageWrite]:
    """What has to be laid over `base` to get `image`, in whole pages, rising.

    Where both have holes nothing is read.  Raises HostError if they have not the same size, or
    cannot be read.
    """
    try:
        old, new = (mapped(path) for path in (base, image))
        parts = sorted({*_parts_with_data(base), *_parts_with_data(image)})
    except (OSError, ValueError) as error:
        raise HostError(f"{base}, {image}: {error}") from error
    if len(old) != len(new):
        raise HostError(f"{image} has {len(new):,} bytes, and {base} {len(old):,}")
    writes = []
    for begin in (part * _PART for part in parts):
        before, after = old[begin : begin + _PART], new[begin : begin + _PART]
        if np.array_equal(before, after):
            continue
        for at in range(0, len(after), _PAGE):
            page = after[at : at + _PAGE]
            if not np.array_equal(page, before[at : at + _PAGE]):
                writes.append(ImageWrite(begin + at, len(page), np.array(page)))
    return writes


def _parts_with_data(path: Path) -> Iterator[int]:
    """The parts of a file in which it is more than a hole."""
    with path.open("rb") as file:
        for begin, end in stretches(file.fileno(), os.fstat(file.fileno()).st_size):
            yield from range(begin // _PART, -(-end // _PART))
