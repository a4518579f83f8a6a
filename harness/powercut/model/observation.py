# SPDX-License-Identifier: Apache-2.0
"""What recovery gave back: the reader's findings, before anybody judges them."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class SlotState(enum.IntEnum):
    """What stood in a slot of the log.  The numbers are those of the wire."""

    INTACT = 1
    ABSENT = 2
    STALE = 3
    TORN = 4
    CORRUPT = 5
    MISDIRECTED = 6
    UNREADABLE = 7


@dataclass(frozen=True)
class Extent:
    """`count` consecutive slots in the same state.

    `lsn` is the LSN found in the first slot and rises by one per slot (0: none).
    `detail`: TORN, the sectors of the record that are right; CORRUPT, the first
    wrong byte; STALE, the generation found; UNREADABLE, the errno.
    """

    slot: int
    count: int
    state: SlotState
    lsn: int = 0
    detail: int = 0


@dataclass(frozen=True)
class Observation:
    """The log as it was found after recovery.

    `recovered` is False if recovery itself failed (no mount, panic); `failure`
    then says how, in the words of whoever noticed.  `complete` is False if the
    reader did not finish: nothing may then be concluded from what is missing.
    """

    extents: tuple[Extent, ...]
    recovered: bool = True
    complete: bool = True
    failure: str = ""
