# SPDX-License-Identifier: Apache-2.0
"""What a dm-log-writes log is made of.

The format is that of the kernel's target (drivers/md/dm-log-writes.c, and
Documentation/admin-guide/device-mapper/log-writes.rst); QEMU's blklogwrites driver
writes the same bytes with another meaning (block/blklogwrites.c).  The two meanings,
called dialects here, are told in docs/formats/dm-log-writes.md and at the head of
logwrites_timeline.py.

    sector 0   magic u64, version u64 (1), nr_entries u64, sectorsize u32
    then, for each entry, one sector
               sector u64, nr_sectors u64, flags u64, data_len u64, [name of a mark]
    and        nr_sectors sectors of data, unless the entry is a discard

Everything is little-endian, addresses and lengths count sectors of the log's own
size, and what is not named above is zero.  There is no checksum.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

MAGIC: Final = 0x6A736677736872
VERSION: Final = 1
SUPERBLOCK: Final = struct.Struct("<QQQI")
ENTRY: Final = struct.Struct("<QQQQ")
END_MARK: Final = "dm-log-writes-end"
"""The mark that the kernel's target writes when it is removed in order."""

SECTOR_SIZES: Final = (512, 1024, 2048, 4096)
"""Sizes of a sector, in bytes, that a log may have."""


class Flag(enum.IntFlag):
    """Flags of an entry.  The numbers are those of the format."""

    FLUSH = 1
    FUA = 2
    DISCARD = 4
    MARK = 8
    METADATA = 16


ALL_FLAGS: Final = 31


class Dialect(enum.Enum):
    """Who wrote a log, and so what the order of its entries means."""

    AUTO = "auto"
    KERNEL = "kernel"
    QEMU = "qemu"


@dataclass(frozen=True)
class LogWrites:
    """A log as it stands in its file: one element of each array per entry, in log order.

    `sector` and `nr_sectors` count sectors of `sector_size` bytes.  `position` is the
    byte offset of the entry's own sector in `data`, which is the whole file, mapped;
    the data of a write follow one sector later.  `names` holds the names of the marks by
    entry number.

    `counted` is the number of entries that the superblock vouches for; what a dialect
    lets stand behind them was found by scanning.  `complete` is True if the log ends
    as one that was closed in order.  `closed` and `no_fua` are the caller's word, for
    QEMU's logs: QEMU ended in order; no write with FUA was sent to the disk.  `doubts` are
    sentences about what the log cannot tell: a verdict that rests on a log with a doubt is
    INCONCLUSIVE.
    """

    path: Path
    dialect: Dialect
    sector_size: int
    disk_size: int
    sector: npt.NDArray[np.int64]
    nr_sectors: npt.NDArray[np.int64]
    flags: npt.NDArray[np.uint8]
    position: npt.NDArray[np.int64]
    names: dict[int, str]
    data: npt.NDArray[np.uint8]
    counted: int
    complete: bool
    closed: bool = False
    no_fua: bool = False
    doubts: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.flags)

    def has(self, flag: Flag) -> npt.NDArray[np.bool_]:
        """True for the entries that carry `flag`."""
        return np.asarray((self.flags & np.uint8(flag)) != 0)

    @property
    def has_data(self) -> npt.NDArray[np.bool_]:
        """True for the entries that change the medium: writes and discards."""
        return np.asarray(self.nr_sectors > 0)

    @property
    def offset(self) -> npt.NDArray[np.int64]:
        """Where on the disk each entry begins, in bytes."""
        return self.sector * self.sector_size

    @property
    def length(self) -> npt.NDArray[np.int64]:
        """Bytes that each entry covers on the disk."""
        return self.nr_sectors * self.sector_size

    def payload(self, entry: int) -> npt.NDArray[np.uint8]:
        """The data of entry number `entry`, which must be a write."""
        if self.flags[entry] & (Flag.DISCARD | Flag.MARK) or not self.nr_sectors[entry]:
            raise ValueError(f"entry {entry} carries no data")
        start = int(self.position[entry]) + self.sector_size
        return self.data[start : start + int(self.nr_sectors[entry]) * self.sector_size]
