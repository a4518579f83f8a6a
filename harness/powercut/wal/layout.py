# SPDX-License-Identifier: Apache-2.0
"""Where each record of a log of the WAL workload belongs (workloads/wal/layout.h).

All sizes, offsets and positions are bytes.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.model.errors import UsageError
from powercut.wal.record import CHUNK, LSN_BITS, RECORD_MAX, RECORD_MIN

U64 = npt.NDArray[np.uint64]

POSITION_MAX: Final = 1 << 62
"""Byte offset in a log (workloads/wal/config.c)."""


class LayoutKind(enum.Enum):
    """How the log lies in its file, files or device."""

    APPEND = "append"
    PREALLOC = "prealloc"
    PREWRITTEN = "prewritten"
    RECYCLED = "recycled"
    SEGMENTS = "segments"
    RAW = "raw"


@dataclass(frozen=True)
class WalLayout:
    """Where each record of a log belongs.  All sizes are bytes.

    `align` is 0 for packed records.  `capacity` is 0 for a log that grows.  `offset`
    is where a raw log begins on its device.  `mapped`: something that the log knows nothing
    of, an image format, decides where on the captured disk a raw log's bytes lie.  `earlier` is the
    number of slots, the first ones, that held a record of an earlier log at power-on: it must be
    there in those that were never written.

    Raises `UsageError` for numbers that no log can have.
    """

    kind: LayoutKind
    record: int = 512
    align: int = 0
    capacity: int = 0
    segment: int = 0
    offset: int = 0
    mapped: bool = False
    earlier: int = 0

    def __post_init__(self) -> None:
        if self.record % CHUNK or not RECORD_MIN <= self.record <= RECORD_MAX:
            raise UsageError(
                f"record={self.record}: a record has 64 to 1048576 bytes",
                hint="choose a multiple of 64",
            )
        if self.align not in (0, 512, 4096):
            raise UsageError(
                f"align={self.align}: records are packed (0) or aligned to 512 or 4096"
            )
        if (
            self.offset % 512
            or self.offset < 0
            or (self.offset and self.kind is not LayoutKind.RAW)
        ):
            raise UsageError(f"offset={self.offset}: a raw log begins at a multiple of 512")
        if max(self.offset, self.capacity, self.segment) > POSITION_MAX:
            raise UsageError(f"a log ends at byte {POSITION_MAX} at the latest")
        sized = self.kind not in (LayoutKind.APPEND, LayoutKind.SEGMENTS)
        if sized and self.capacity < self.stride:
            raise UsageError(f"capacity={self.capacity}: not one slot of {self.stride} bytes fits")
        if self.kind is LayoutKind.SEGMENTS and self.segment < self.stride:
            raise UsageError(f"segment={self.segment}: not one slot of {self.stride} bytes fits")

    @property
    def stride(self) -> int:
        """Bytes from one slot to the next."""
        return -(-self.record // self.align) * self.align if self.align else self.record

    @property
    def chunks(self) -> int:
        """64-byte chunks in a record, the header included."""
        return self.record // CHUNK

    @property
    def in_place(self) -> bool:
        """Whether each record has one place on the captured disk, known in advance."""
        return self.kind is LayoutKind.RAW and not self.mapped

    @property
    def wraps(self) -> bool:
        """Whether a full log wraps over its oldest records."""
        return self.kind in (LayoutKind.RECYCLED, LayoutKind.RAW)

    @property
    def slots(self) -> int:
        """Number of slots; 0 for a log that grows without end."""
        if self.kind in (LayoutKind.APPEND, LayoutKind.SEGMENTS):
            return 0
        return self.capacity // self.stride

    @property
    def slots_per_segment(self) -> int:
        """Slots in one segment file; 0 if the log is not made of segments."""
        return self.segment // self.stride if self.kind is LayoutKind.SEGMENTS else 0

    def slot_of(self, lsn: int) -> int:
        """The slot that record `lsn` belongs to."""
        return (lsn - 1) % self.slots if self.wraps else lsn - 1

    def position_of(self, lsn: int) -> int:
        """Byte offset in the log of record `lsn` (over the concatenated segments)."""
        slot = self.slot_of(lsn)
        if self.slots_per_segment:
            index, within = divmod(slot, self.slots_per_segment)
            return index * self.segment + within * self.stride
        return slot * self.stride

    def positions_of(self, lsns: U64) -> U64:
        """`position_of` for many."""
        slot = lsns - np.uint64(1)
        if self.wraps:
            slot = slot % np.uint64(self.slots)
        if not self.slots_per_segment:
            return slot * np.uint64(self.stride)
        per_file = np.uint64(self.slots_per_segment)
        within = slot % per_file * np.uint64(self.stride)
        return slot // per_file * np.uint64(self.segment) + within

    def generations_of(self, lsns: U64) -> U64:
        """How often the slot of each record was written before it, modulo 2^16."""
        prewritten = np.uint64(self.kind in (LayoutKind.PREWRITTEN, LayoutKind.RECYCLED))
        rounds = (lsns - np.uint64(1)) // np.uint64(self.slots or 1 << LSN_BITS)
        return (rounds + prewritten) % np.uint64(1 << 16)

    def oldest_required(self, attempted: int) -> int:
        """Lowest LSN that may still be asked for once `attempted` was attempted.

        In a log that wraps, the attempt of record n + slots gives record n up.
        """
        return max(1, attempted - self.slots + 1) if self.wraps else 1


# What stood in a slot of a log, as the log reader calls it (workloads/wal/classify.h).


class SlotState(enum.IntEnum):
    """What stood in a slot of the log.  The numbers are those of the wire.

    `detail` of an extent of slots is then: of TORN, the sectors of the record that are right; of
    CORRUPT, the first wrong byte; of STALE, the generation found; of UNREADABLE, the errno.
    """

    INTACT = 1
    ABSENT = 2
    STALE = 3
    TORN = 4
    CORRUPT = 5
    MISDIRECTED = 6
    UNREADABLE = 7
