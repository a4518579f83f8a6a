# SPDX-License-Identifier: Apache-2.0
"""How long a log of dm-log-writes is, from its beginning.

The format is in the kernel's Documentation/admin-guide/device-mapper/log-writes.rst and
docs/formats/dm-log-writes.md; here it is only followed to its end, to know how much of a
log to fetch.  The reader of the log checks it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from powercut.model.errors import HostError
from powercut.model.units import SECTOR

STEP: Final = 1 << 20
"""Bytes that are fetched at a time."""

_MAGIC: Final = 0x6A736677736872
_SUPER: Final = struct.Struct("<QQQI")  # magic, version, entries, sector size
_ENTRY: Final = struct.Struct("<QQQQ")  # sector, sectors, flags, bytes of data
_DISCARD: Final = 4


def whole_log(read: Callable[[int, int], bytes], *, load: int, most: int) -> bytes:
    """A log, read until it says that it ends; `read` is given an offset and a length.

    `load` bytes are read at once at most, and `most` in all.  Raises HostError.
    """
    parts = bytearray()
    needed = STEP
    while len(parts) < needed:
        length = min(load, -(-(needed - len(parts)) // STEP) * STEP)
        if len(parts) + length > most:
            raise HostError("a recovery wrote more than the disk is large: not recorded whole")
        parts += read(len(parts), length)
        needed = log_bytes(parts)
    return bytes(parts[:needed])


def log_bytes(begin: bytes | bytearray) -> int:
    """How many bytes a log takes that begins so, as far as that is known: if the result is
    more than there are, it is to be asked again with that many.

    Raises HostError if it is no such log.
    """
    if len(begin) < _SUPER.size:
        raise HostError("the recovery was not recorded: there is no beginning of a log")
    magic, version, entries, sector = map(int, _SUPER.unpack_from(begin))
    if magic != _MAGIC or version != 1 or sector < SECTOR or sector & (sector - 1):
        raise HostError("the recovery was not recorded: there is no log of it")
    at = sector
    for _ in range(entries):
        if at + sector > len(begin):
            return at + sector
        _, sectors, flags, _ = map(int, _ENTRY.unpack_from(begin, at))
        at += sector + (0 if flags & _DISCARD else sectors * sector)  # a mark has no sectors
    return at
