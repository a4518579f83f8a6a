# SPDX-License-Identifier: Apache-2.0
"""How well the instants of acks are known."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from powercut.model.verdict import LsnRange


class AckBasis(enum.Enum):
    """What the instants of acks rest on."""

    CLOCK = "clock"  # of the guest, bounded by events that both clocks saw
    RECEIPT = "receipt"  # by the controller, on the host's clock
    MARK = "mark"  # in the disk's own log


@dataclass(frozen=True)
class AckProof:
    """What the dating of acks proves; times in nanoseconds.

    `window_ns`: how much earlier than dated an ack may have been made, at most, and
    `usual_window_ns`, in the median; None if it is not known, and `reason` says why.
    `gained_ns`: how much earlier than received an ack was dated, at most.  `unproved`: records
    that may have been acknowledged before the sync began that made them durable; empty if
    nothing is known.  `shortest_sync_ns`: of the syncs that made records durable; None if
    there was none.
    """

    basis: AckBasis
    window_ns: int | None
    usual_window_ns: int | None
    gained_ns: int
    shortest_sync_ns: int | None
    unproved: tuple[LsnRange, ...] = ()
    reason: str = ""
