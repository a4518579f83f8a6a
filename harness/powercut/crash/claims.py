# SPDX-License-Identifier: Apache-2.0
"""required(t): which records recovery must return after a cut at any instant.

1. A record is required at *t* if it was acknowledged before *t*.  The instant of an
   ack is the latest at which it can have been made (crash/dating.py); an ack that was
   still on its way at the cut was made before it and is required at the cut.
2. In a log that wraps, record n is given up when record n + slots is attempted: from
   then on its place may be written over.  An attempt is known from its message, or
   from the first write that carries the record's bytes: messages arrive later than
   they are sent, and a write can overtake one.
3. What was never attempted must not come back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from powercut.crash.scan import Runs
from powercut.model.history import History
from powercut.model.timeline import Timeline
from powercut.model.units import NEVER
from powercut.model.verdict import LsnRange
from powercut.wal.layout import WalLayout

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Claims:
    """The claims of a run, ready to be asked for any instant.

    `ack_ns[k]` is the instant of the ack of `ack_lsn[k]`; both rise strictly.  The
    same holds for the attempts.
    """

    layout: WalLayout
    ack_lsn: I64
    ack_ns: I64
    attempt_lsn: I64
    attempt_ns: I64

    @property
    def acked(self) -> int:
        """Highest LSN acknowledged at any time; 0 if none."""
        return int(self.ack_lsn[-1]) if len(self.ack_lsn) else 0

    @property
    def attempted(self) -> int:
        return int(self.attempt_lsn[-1]) if len(self.attempt_lsn) else 0

    def acked_ns(self, lsns: I64) -> I64:
        """When each of `lsns` was acknowledged first; `NEVER` if it was not."""
        return _first_reaching(self.ack_lsn, self.ack_ns, lsns)

    def released_ns(self, lsns: I64) -> I64:
        """When each of `lsns` was given up by the attempt of a record one log further on."""
        if not self.layout.wraps:
            return np.full(len(lsns), NEVER, dtype=np.int64)
        return _first_reaching(self.attempt_lsn, self.attempt_ns, lsns + self.layout.slots)

    def acked_before(self, instant: int) -> int:
        """Highest LSN acknowledged before `instant`; 0 if none."""
        return _highest_before(self.ack_lsn, self.ack_ns, instant)

    def attempted_before(self, instant: int) -> int:
        """Highest LSN attempted before `instant`; 0 if none."""
        return _highest_before(self.attempt_lsn, self.attempt_ns, instant)

    def required(self, instant: int) -> LsnRange | None:
        """The records that recovery must return after a cut at `instant`; None if none."""
        first = self.layout.oldest_required(self.attempted_before(instant))
        last = self.acked_before(instant)
        return LsnRange(first, last) if first <= last else None


def claims_of(
    history: History, layout: WalLayout, timeline: Timeline | None = None, runs: Runs | None = None
) -> Claims:
    """Orders the claims of `history`; with a timeline and its runs, by content as well."""
    ack_ns = history.ack_ns
    attempt_lsn, attempt_ns = history.attempt_lsn, history.attempt_ns
    if timeline is not None and timeline.cut is not None:
        ack_ns = np.minimum(ack_ns, np.int64(timeline.cut.at - 1))
    if timeline is not None and runs is not None and len(runs):
        highest = (runs.chunk + runs.count - 1) // layout.chunks + 1
        attempt_lsn = np.concatenate([attempt_lsn, highest])
        attempt_ns = np.concatenate([attempt_ns, timeline.requests.submitted_ns[runs.write]])
    acks = _records(history.ack_lsn, ack_ns)
    attempts = _records(attempt_lsn, attempt_ns)
    return Claims(layout, *acks, *attempts)


def _records(lsn: I64, instant: I64) -> tuple[I64, I64]:
    """Only the claims that go further than every claim at an earlier or the same instant."""
    order = np.lexsort((-lsn, instant))
    lsn, instant = lsn[order].astype(np.int64), instant[order].astype(np.int64)
    further = np.ones(len(lsn), dtype=np.bool_)
    further[1:] = lsn[1:] > np.maximum.accumulate(lsn)[:-1]
    return lsn[further], instant[further]


def _first_reaching(claimed: I64, instant: I64, lsns: I64) -> I64:
    instant = np.append(instant, np.int64(NEVER))
    return np.asarray(instant[np.searchsorted(claimed, lsns, side="left")], dtype=np.int64)


def _highest_before(claimed: I64, instant: I64, when: int) -> int:
    count = int(np.searchsorted(instant, when, side="left"))
    return int(claimed[count - 1]) if count else 0
