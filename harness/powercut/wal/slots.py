# SPDX-License-Identifier: Apache-2.0
"""What stood in a slot of a log, as the log reader calls it (workloads/wal/classify.h)."""

from __future__ import annotations

import enum


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
