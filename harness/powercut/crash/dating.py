# SPDX-License-Identifier: Apache-2.0
"""When acks were made: the earliest and the latest instant that the evidence allows.

The controller receives an ack later than the workload made it, on a busy host by tens of
milliseconds.  So an ack that was made before its record was durable can be received after
it, and the receipt says nothing of that.  An ack carries the guest's clock, though, and
crash/clock.py bounds what the host's clock read then.  Both ends of the interval count, each
on its own side:

1. An ack counts as made at the *latest* instant.  It was made then or earlier.  So a record
   that was not durable by then was not durable at its ack, whatever the latencies were: a
   loss is certain.  Taking any earlier instant would convict workloads that kept their
   promise.
2. What acquits is the *earliest* instant.  The window between the two is where an ack can
   hide that was made a little too early.  It is stated beside each verdict.  A record whose
   ack may have been made before its sync had even begun is not proved: the workload may never
   have waited.  Then the verdict is INCONCLUSIVE.

A disk whose flushes take longer than the window is wide proves every ack of a workload that
waits: an ack made before its sync began is dated before its end, and convicted by rule 1.

3. Where the clocks contradict each other, or nothing ties them, the latest instant is the
   receipt, and the earliest is not known.
4. Acks that are marks in the disk's own log have one instant, that of the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.crash.clock import ClocksDisagree, Points, bound_clock
from powercut.crash.scan import Runs
from powercut.model.acks import AckBasis
from powercut.model.history import History
from powercut.model.timeline import Timeline
from powercut.model.units import NEVER
from powercut.wal.layout import WalLayout

I64 = npt.NDArray[np.int64]

NO_ROUND_TRIPS: Final = "nothing ties the guest's clock to the host's: no ping was answered"


@dataclass(frozen=True)
class AckDating:
    """The interval in which each ack of a history was made, in its order.

    `received_ns`: when the controller heard of it.  `earliest_ns` is None if it is not known,
    and `reason` says why.
    """

    received_ns: I64
    latest_ns: I64
    earliest_ns: I64 | None
    basis: AckBasis
    reason: str = ""

    @property
    def window_ns(self) -> I64 | None:
        """How much earlier than dated each ack may have been made; None if not known."""
        return None if self.earliest_ns is None else self.latest_ns - self.earliest_ns


def date_acks(
    history: History,
    timeline: Timeline | None = None,
    runs: Runs | None = None,
    layout: WalLayout | None = None,
) -> AckDating:
    """Dates the acks of `history`; with a timeline and its runs, by writes of records as well."""
    receipt = history.ack_ns
    if history.marked:
        return AckDating(receipt, receipt, receipt, AckBasis.MARK)
    trips = history.round_trips
    if not len(trips):
        return AckDating(receipt, receipt, None, AckBasis.RECEIPT, NO_ROUND_TRIPS)
    before = [
        Points(history.ack_guest_ns, history.ack_ns),
        Points(history.attempt_guest_ns, history.attempt_ns),
        Points(trips.guest_ns, trips.received_ns),
    ]
    if timeline is not None and runs is not None and layout is not None:
        before.append(attempts_at_disk(history, timeline, runs, layout))
    try:
        _check_order(history)
        bounds = bound_clock(Points.join(*before), Points(trips.guest_ns, trips.sent_ns))
    except ClocksDisagree as error:
        return AckDating(receipt, receipt, None, AckBasis.RECEIPT, str(error))
    return AckDating(
        receipt,
        np.minimum(receipt, bounds.latest(history.ack_guest_ns)),
        np.minimum(receipt, bounds.earliest(history.ack_guest_ns)),
        AckBasis.CLOCK,
    )


def _check_order(history: History) -> None:
    """One thread at a time stamps and sends claims: their stamps rise as they arrive."""
    for stamps in (history.attempt_guest_ns, history.ack_guest_ns):
        back = int(np.diff(stamps).min(initial=0))
        if back < 0:
            raise ClocksDisagree(f"the guest's clock went back by {-back / 1e6:.3f} ms")


def attempts_at_disk(history: History, timeline: Timeline, runs: Runs, layout: WalLayout) -> Points:
    """Attempts, each with the first write of a record that it announced.

    The workload stamps an attempt before it writes any of its records; so when the disk took
    such a write, the guest's clock had read the stamp.
    """
    attempted = np.maximum.accumulate(history.attempt_lsn)
    submitted = timeline.requests.submitted_ns[runs.write]
    first = np.full(len(attempted) + 1, NEVER, dtype=np.int64)
    for chunk in (runs.chunk, runs.chunk + runs.count - 1):
        announced = np.searchsorted(attempted, chunk // layout.chunks + 1, side="left")
        np.minimum.at(first, announced, submitted)
    seen = np.flatnonzero(first[:-1] != NEVER)
    return Points(history.attempt_guest_ns[seen], first[seen])


def earliest_acks(history: History, dating: AckDating, lsns: I64) -> I64:
    """The earliest instant at which each of `lsns` may have been acknowledged; `NEVER`: not.

    Raises ValueError if it is not known.
    """
    if dating.earliest_ns is None:
        raise ValueError("the earliest instant of these acks is not known")
    order = np.argsort(history.ack_lsn, kind="stable")
    reaching = np.minimum.accumulate(dating.earliest_ns[order][::-1])[::-1]
    reaching = np.append(reaching, np.int64(NEVER))
    return np.asarray(reaching[np.searchsorted(history.ack_lsn[order], lsns)], dtype=np.int64)
