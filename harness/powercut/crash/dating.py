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
5. A guest that moves to another hypervisor (`History.handovers`) takes its clock along, which
   stands still on the way.  So f rises by a step there, and each hypervisor has bounds of its own,
   of what was received from it.  What was received from the first was made there.  What was
   received from the second may have been made in the first, and have waited in a queue that moved
   along: if the first's clock may have read so before the guest stood still in it, the earliest
   instant is the one of the first.  The latest is right in both cases, for the step only rises.
   A hypervisor that was cut before an ack came from it needs no bounds.
6. A guest that is restarted begins with another clock, with bounds of its own, and with empty
   queues: what it sends was made after the restart, whatever its bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.crash.clock import ClockBounds, ClocksDisagree, Points, bound_clock
from powercut.crash.scan import Runs
from powercut.model.history import Handover, History
from powercut.model.operations import AckBasis
from powercut.model.timeline import Timeline
from powercut.model.units import NEVER
from powercut.wal.layout import WalLayout

I64 = npt.NDArray[np.int64]

_SINCE: Final = {False: " after the guest had moved", True: " after the guest was restarted"}
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
    first = np.full(len(history.attempt_lsn), NEVER, dtype=np.int64)
    if timeline is not None and runs is not None and layout is not None:
        first = first_writes(history, timeline, runs, layout)
    try:
        _check_order(history)
        earliest, latest = _by_clock(history, first)
    except ClocksDisagree as error:
        return AckDating(receipt, receipt, None, AckBasis.RECEIPT, str(error))
    return AckDating(
        receipt, np.minimum(receipt, latest), np.minimum(receipt, earliest), AckBasis.CLOCK
    )


def _by_clock(history: History, first_write_ns: I64) -> tuple[I64, I64]:
    """The earliest and the latest instant of each ack, one hypervisor, or boot, after the other.

    Raises ClocksDisagree if the acks from one of them have no bound.
    """
    trips, attempts, acks = history.round_trips, history.attempt_guest_ns, history.ack_guest_ns
    earliest, latest = np.empty_like(acks), np.empty_like(acks)
    before: list[tuple[ClockBounds, int]] = []
    nothing, booted_ns = Handover(0, 0, 0, 0), 0
    for begin, end in pairwise((nothing, *history.handovers, None)):
        assert begin is not None
        a = slice(begin.attempts, end.attempts if end else None)
        k = slice(begin.acks, end.acks if end else None)
        t = slice(begin.round_trips, end.round_trips if end else None)
        if begin.restarted:
            before.clear()
            booted_ns = begin.stopped_ns
        if begin is not nothing and not len(acks[k]):
            continue  # cut before it has promised anything: there is nothing to date
        if not len(trips.sent_ns[t]):
            raise ClocksDisagree(NO_ROUND_TRIPS + _SINCE[begin.restarted] * (begin is not nothing))
        written = (first_write_ns[a] != NEVER) & (first_write_ns[a] >= begin.stopped_ns)
        above = (
            Points(acks[k], history.ack_ns[k]),
            Points(attempts[a], history.attempt_ns[a]),
            Points(trips.guest_ns[t], trips.received_ns[t]),
            Points(attempts[a][written], first_write_ns[a][written]),
        )
        bounds = bound_clock(Points.join(*above), Points(trips.guest_ns[t], trips.sent_ns[t]))
        latest[k], earliest[k] = bounds.latest(acks[k]), bounds.earliest(acks[k])
        for earlier, stopped_ns in before:
            there = earlier.earliest(acks[k])
            waited = there <= stopped_ns
            earliest[k] = np.where(waited, np.minimum(earliest[k], there), earliest[k])
        if int(latest[k].min(initial=NEVER)) < booted_ns:
            raise ClocksDisagree("an ack of the restarted guest was made before its restart")
        earliest[k] = np.maximum(earliest[k], booted_ns)
        if end is not None:
            before.append((bounds, end.stopped_ns))
    return earliest, latest


def _check_order(history: History) -> None:
    """One thread at a time stamps and sends claims: their stamps rise as they arrive, until the
    guest is restarted."""
    restarts = [each for each in history.handovers if each.restarted]
    attempts = np.split(history.attempt_guest_ns, [each.attempts for each in restarts])
    acks = np.split(history.ack_guest_ns, [each.acks for each in restarts])
    for stamps in (*attempts, *acks):
        back = int(np.diff(stamps).min(initial=0))
        if back < 0:
            raise ClocksDisagree(f"the guest's clock went back by {-back / 1e6:.3f} ms")


def first_writes(history: History, timeline: Timeline, runs: Runs, layout: WalLayout) -> I64:
    """When the disk took the first write of a record that each attempt announced; `NEVER`: none.

    The workload stamps an attempt before it writes any of its records; so when the disk took
    such a write, the guest's clock had read the stamp.  A record that a restarted guest attempts
    once more bounds the attempt before its restart: the write may be the file system's, and it is
    later than that one in any case.
    """
    attempted = np.maximum.accumulate(history.attempt_lsn)
    submitted = timeline.requests.submitted_ns[runs.write]
    first = np.full(len(attempted) + 1, NEVER, dtype=np.int64)
    for chunk in (runs.chunk, runs.chunk + runs.count - 1):
        announced = np.searchsorted(attempted, chunk // layout.chunks + 1, side="left")
        np.minimum.at(first, announced, submitted)
    return first[:-1]


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
