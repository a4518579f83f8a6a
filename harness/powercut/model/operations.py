# SPDX-License-Identifier: Apache-2.0
"""What a program claimed of its operations, and what its checker found: sets, not prefixes.

Operations are numbers; they may be tried in parallel and acknowledged in any order.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from powercut.model.verdict import LsnRange

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Packet:
    """What one write of a program carried, and when it was made.

    `stamped` by the kernel of this host as it took the write in; the instant of another packet is
    what its source makes it, most often that of its receipt.  `guest_ns` is the clock of the
    guest when it was written or a little later, 0 if that is not known.  With `sent_ns` it
    is the answer to a ping, which was sent then, on this host's clock, and holds no lines.
    """

    at_ns: int
    data: bytes
    stamped: bool = False
    guest_ns: int | None = None
    sent_ns: int | None = None


@dataclass(frozen=True)
class OperationHistory:
    """The claims of one run.

    `acked[k]` is the operation of the k-th ack and `ack_ns[k]` the instant at which it was
    made, nanoseconds on the disk's clock, rising; the same for attempts.  `failed` are the
    operations of which the program says that they may or may not be there.  `trouble` is what
    it says of itself, and what is wrong with its claims.

    `atomic` is its promise that an operation which was tried is there whole, or not at all.  It
    `keeps` every operation that it has acknowledged, or of them a prefix in the order of their
    numbers, or only opens with what there is.

    With `by_receipt` claims have the instants at which they were received, which is later than they
    were made by nobody knows how much: an ack counts from then on, and an attempt always.  With
    `proof`, too, but that acks have the instants that it tells of.
    """

    attempted: I64
    attempt_ns: I64
    acked: I64
    ack_ns: I64
    failed: frozenset[int] = frozenset()
    ready_ns: int | None = None
    trouble: tuple[str, ...] = ()
    by_receipt: bool = False
    proof: AckProof | None = None
    atomic: bool = False
    keeps: Literal["every", "prefix", "opens"] = "every"

    def attempted_before(self, instant: int) -> frozenset[int]:
        """Operations that may have left a trace on the disk by then."""
        if self.by_receipt:
            return self.names
        count = int(np.searchsorted(self.attempt_ns, instant, side="left"))
        return frozenset(self.attempted[:count].tolist())

    def acked_before(self, instant: int) -> frozenset[int]:
        """Operations that recovery must return after a cut at `instant`."""
        count = int(np.searchsorted(self.ack_ns, instant, side="left"))
        return frozenset(self.acked[:count].tolist())

    def without_acks(self, operations: Collection[int]) -> OperationHistory:
        """The same, but that `operations` were only tried."""
        kept = ~np.isin(self.acked, np.fromiter(operations, np.int64, len(operations)))
        return replace(self, acked=self.acked[kept], ack_ns=self.ack_ns[kept])

    def required(self, instant: int) -> LsnRange | None:
        """The acks before `instant`, by their number in order; None if there is none.

        Two instants with the same answer require the same operations.
        """
        count = int(np.searchsorted(self.ack_ns, instant, side="left"))
        return LsnRange(1, count) if count else None

    @cached_property
    def names(self) -> frozenset[int]:
        """Every operation that was attempted at any time."""
        return frozenset(self.attempted.tolist())


@dataclass(frozen=True)
class Sighting:
    """What a program's checker found in one recovered state.

    `present` and `wrong` hold operations (`wrong` with the reason); `bad` says how the store
    contradicts itself.  `incomplete` says why the checker did not look at everything, empty if it
    did: then nothing may be concluded from what it does not name.
    """

    present: tuple[LsnRange, ...] = ()
    wrong: tuple[tuple[int, str], ...] = ()
    bad: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()

    def those_present(self, operations: Collection[int]) -> frozenset[int]:
        """Those of `operations` that are there and right."""
        if not self.present or not operations:
            return frozenset()
        numbers = np.fromiter(operations, dtype=np.int64, count=len(operations))
        at = np.searchsorted(self._starts, numbers, side="right") - 1
        there = (at >= 0) & (numbers <= self._ends[at])
        return frozenset(numbers[there].tolist())

    @cached_property
    def _order(self) -> list[LsnRange]:
        return sorted(self.present, key=lambda span: (span.first, span.last))

    @cached_property
    def _starts(self) -> I64:
        return np.array([span.first for span in self._order], dtype=np.int64)

    @cached_property
    def _ends(self) -> I64:
        lasts = np.array([span.last for span in self._order], dtype=np.int64)
        return np.maximum.accumulate(lasts)


# How well the instants of acks are known.


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


# What a recorded kernel was given to do beside its program's calls (guests/common/press.c).


@dataclass(frozen=True)
class Pressed:
    """What was done until the cut, as the kernel's first process has counted it."""

    writebacks: int = 0
    """How often the kernel was told to write back what no sync had asked for."""

    commits: int = 0
    """How many syncs of a neighbour on the program's file systems have returned."""
