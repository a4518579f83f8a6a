# SPDX-License-Identifier: Apache-2.0
"""The places that a recovery has read, as the recovery kernel counts them: in granules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.model.units import SECTOR
from powercut.recover.port import Reads
from powercut.recover.uml.origin import PAGE

_GRANULES_MAX: Final = 32768  # the map is text, a line of up to 60 bytes each, in the guest


@dataclass(frozen=True)
class ReadMap:
    """The granules of `granule` bytes that begin at `places` (rising) on a disk of `size` bytes."""

    places: npt.NDArray[np.int64]
    granule: int
    size: int

    @classmethod
    def of(cls, answer: npt.NDArray[np.uint8], sectors: int, size: int) -> ReadMap:
        """The map in `answer`, u64 each, the first sector of a granule of so many `sectors`."""
        places = answer.copy().view("<u8").astype(np.int64) * SECTOR
        return cls(places, sectors * SECTOR, size)

    def stretches(self) -> Reads:
        """The same with neighbours joined: (offset, length) in bytes, rising."""
        size = self.granule
        begins = np.flatnonzero(np.diff(self.places, prepend=-2 * size) != size)
        ends = np.append(begins[1:], len(self.places)) - 1
        pairs = zip(self.places[begins].tolist(), self.places[ends].tolist(), strict=True)
        return tuple((first, min(last + size, self.size) - first) for first, last in pairs)


def read_granule(size: int) -> int:
    """Sectors per granule of the read map: 4 KiB, or more on a disk with many of those."""
    granule = PAGE // SECTOR
    while size // (granule * SECTOR) > _GRANULES_MAX:
        granule *= 2
    return granule
