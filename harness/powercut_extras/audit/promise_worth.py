# SPDX-License-Identifier: Apache-2.0
"""What each flush and each FUA is worth: what the disk would not owe without it.  Pure.

A *promise* is a request that makes writes durable: a flush, or a write with FUA.  It is
audited by a disk that keeps its contract but for this one request, whose durability it
ignores; it still takes the request and completes it when it did.  By the rules of
crash/sets.py nothing changes but this:

1. A write whose durability no other promise gave earlier, or at the same time, is durable
   only when the next promise that covers it completes, or never.  Those writes *hang* on
   the promise, until then.
2. A promise on which no write hangs is *idle*: with it and without it the same crash states
   are legal at every instant, so that nothing can depend on it on a disk like this.
3. A promise *carries* a record if the record is exposed without it and was not with it.
   Only records of which some write hangs on it can be (a write that is not durable yet takes
   nothing away that it did not take away before), so promises that share no record are asked
   in one pass.
4. The writes that hang on a promise become durable by *the next one*, if there is one.  If nothing
   is acknowledged between the two, the two may be joined: what is then given up is only the order
   between those writes and the writes submitted in between.  If there are none of these either,
   nothing is given up: each state that is legal without the promise is legal just before it
   completed, when the same was required.

What leads to the bytes (a file system, a database) is not seen here: a promise that carries
no bytes may still be what a recovery rests on.  Only recovered states say so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.crash.evidence import Evidence
from powercut.crash.exposure import exposure
from powercut.crash.sets import DurabilitySets, by_reach, durability_sets
from powercut.model.contract import Honour
from powercut.model.exposure import ExposureReport, ranges_of
from powercut.model.timeline import RequestKind, Requests, Timeline
from powercut.model.units import NEVER
from powercut.model.verdict import LsnRange

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

NOBODY: Final = -1


@dataclass(frozen=True)
class Dependence:
    """By whom each request of a timeline was made durable, and when it were without.

    One element per request.  `promise` is the request that did it first, itself for a write
    with FUA, `NOBODY` for what is no write or was not made durable.  `durable_ns` is when,
    `without_ns` when another would have; `NEVER` if none.
    """

    promise: I64
    durable_ns: I64
    without_ns: I64

    def hanging(self, promise: int) -> I64:
        """The writes that hang on `promise`, in submission order."""
        return np.flatnonzero(self.hangs & (self.promise == promise))

    @property
    def hangs(self) -> Mask:
        """True for the writes that hang on the promise which made them durable."""
        return np.asarray((self.promise != NOBODY) & (self.without_ns > self.durable_ns))


@dataclass(frozen=True)
class Carried:
    """The records that are exposed without `promise`, and for how long at most (ns)."""

    promise: int
    lsns: tuple[LsnRange, ...]
    longest_ns: int


@dataclass(frozen=True)
class UntilNext:
    """What lies between a promise and the next one, by rule 4: acks, and writes submitted."""

    acks: int
    writes: int


def promises(timeline: Timeline) -> I64:
    """The promises of `timeline` that its disk kept, in submission order.

    None on a disk without a volatile cache, where each write is durable when it completes.
    """
    requests, contract = timeline.requests, timeline.contract
    if not contract.volatile_cache:
        return np.empty(0, dtype=np.int64)
    kept = np.zeros(len(requests), dtype=np.bool_)
    if contract.flush is Honour.HONOURED:
        kept |= requests.kind == RequestKind.FLUSH
    if contract.fua is Honour.HONOURED:
        kept |= requests.fua & requests.is_write
    kept &= requests.believed & (requests.completed_ns != NEVER) & ~requests.failed
    if timeline.cut is not None:
        kept &= requests.completed_ns < timeline.cut.at
    return np.flatnonzero(kept)


def dependence(timeline: Timeline) -> Dependence:
    """Applies rule 1 to every request; O(n log n) in the requests."""
    requests = timeline.requests
    kept = promises(timeline)
    durable_ns = durability_sets(timeline).durable_ns
    count = len(requests)
    flushes = kept[requests.kind[kept] == RequestKind.FLUSH]
    promise, first_ns, without_ns = _covering(requests, flushes)
    own = np.zeros(count, dtype=np.bool_)
    own[kept] = requests.kind[kept] != RequestKind.FLUSH
    # A write's own FUA comes first: a flush that covers it was submitted after its completion.
    promise = np.where(own, np.arange(count), promise)
    without_ns = np.where(own, first_ns, without_ns)
    unmade = durable_ns == NEVER
    return Dependence(
        promise=np.where(unmade, np.int64(NOBODY), promise),
        durable_ns=durable_ns,
        without_ns=np.where(unmade, np.int64(NEVER), without_ns),
    )


def _covering(requests: Requests, flushes: I64) -> tuple[I64, I64, I64]:
    """For each request: which of `flushes` that cover it ends first, when, and when the next does.

    What several ranges cover, one of them within the other, takes the two earliest of all.
    """
    count = len(requests)
    promise = np.full(count, NOBODY, dtype=np.int64)
    first_ns = np.full(count, NEVER, dtype=np.int64)
    second_ns = first_ns.copy()
    completed = np.where(requests.failed, np.int64(NEVER), requests.completed_ns)
    for mine, covered in by_reach(requests, flushes):
        first, ends, then = _two_earliest(mine, requests.completed_ns[mine])
        at = np.searchsorted(requests.submitted_ns[mine], completed[covered], side="right")
        sooner = ends[at] < first_ns[covered]
        before = first_ns[covered]
        promise[covered] = np.where(sooner, first[at], promise[covered])
        first_ns[covered] = np.where(sooner, ends[at], before)
        losing = np.where(sooner, before, ends[at])
        second_ns[covered] = np.minimum(np.minimum(second_ns[covered], then[at]), losing)
    return promise, first_ns, second_ns


def _two_earliest(flushes: I64, done_ns: I64) -> tuple[I64, I64, I64]:
    """For each place in `flushes`, and the one behind the last: of those from there on, which
    ends first, when it ends, and when the next one of them ends.
    """
    count = len(flushes)
    first = np.full(count + 1, NOBODY, dtype=np.int64)
    first_ns = np.full(count + 1, NEVER, dtype=np.int64)
    second_ns = first_ns.copy()
    best, best_ns, next_ns = NOBODY, int(NEVER), int(NEVER)
    for at in range(count - 1, -1, -1):
        ends = int(done_ns[at])
        if ends < best_ns:
            best, best_ns, next_ns = int(flushes[at]), ends, best_ns
        else:
            next_ns = min(next_ns, ends)
        first[at], first_ns[at], second_ns[at] = best, best_ns, next_ns
    return first, first_ns, second_ns


def carried(evidence: Evidence, *, first_lsn: int = 1) -> list[Carried]:
    """The promises of which some record from `first_lsn` on is exposed without them; by rule 3.

    In submission order.  Records that are exposed as it was hang on no promise.
    """
    hang = dependence(evidence.timeline)
    exposed = exposure(evidence, first_lsn=first_lsn).exposed
    worst = _exposure_without(evidence, hang, hang.hangs, first_lsn)
    suspects = worst.lsn[worst.exposed & ~exposed]
    by_promise = _records_by_promise(evidence, hang, suspects)
    parts = []
    for group in _apart(by_promise):
        late = hang.hangs & np.isin(hang.promise, group)
        report = _exposure_without(evidence, hang, late, first_lsn)
        for promise in group:
            at = by_promise[promise] - first_lsn
            at = at[report.exposed[at]]
            if len(at):
                longest_ns = int(report.exposed_ns[at].max())
                parts.append(Carried(promise, ranges_of(report.lsn[at]), longest_ns))
    return sorted(parts, key=lambda one: one.promise)


def until_next(timeline: Timeline, hang: Dependence, promise: int, ack_ns: I64) -> UntilNext | None:
    """What lies between `promise` and the next one; `ack_ns` are the instants of acks.

    None if nothing hangs on it, or some of that became durable by no other promise.
    """
    hanging = hang.hanging(promise)
    if not len(hanging) or int(hang.without_ns[hanging].max()) == NEVER:
        return None
    begin, end = int(hang.durable_ns[hanging].min()), int(hang.without_ns[hanging].max())
    requests = timeline.requests
    writes = requests.submitted_ns[requests.kind != RequestKind.FLUSH]
    return UntilNext(*(int(np.sum((at >= begin) & (at < end))) for at in (ack_ns, writes)))


def delayed(sets: DurabilitySets, hang: Dependence, which: Mask) -> DurabilitySets:
    """`sets` in which the writes `which` became durable without the promise they hang on."""
    return replace(sets, durable_ns=np.where(which, hang.without_ns, sets.durable_ns))


def _exposure_without(
    evidence: Evidence, hang: Dependence, which: Mask, first_lsn: int
) -> ExposureReport:
    """The exposure of `evidence` with `delayed`."""
    late = replace(evidence, sets=delayed(evidence.sets, hang, which))
    return exposure(late, first_lsn=first_lsn)


def _records_by_promise(evidence: Evidence, hang: Dependence, suspects: I64) -> dict[int, I64]:
    """Of `suspects`, which rise, those of which some write hangs on each promise."""
    runs, per_record = evidence.runs, evidence.layout.chunks
    runs = runs.select(hang.hangs[runs.write])
    first = runs.chunk // per_record + 1
    last = (runs.chunk + runs.count - 1) // per_record + 1
    low = np.searchsorted(suspects, first, side="left")
    high = np.searchsorted(suspects, last, side="right")
    held: dict[int, set[int]] = {}
    for promise, begin, end in zip(
        hang.promise[runs.write].tolist(), low.tolist(), high.tolist(), strict=True
    ):
        if end > begin:
            held.setdefault(promise, set()).update(suspects[begin:end].tolist())
    return {
        promise: np.array(sorted(lsns), dtype=np.int64) for promise, lsns in sorted(held.items())
    }


def _apart(by_promise: dict[int, I64]) -> list[list[int]]:
    """Groups of promises no two of which share a record; as few as first come, first served."""
    taken: dict[int, set[int]] = {}
    groups: list[list[int]] = []
    for promise, lsns in by_promise.items():
        used = set().union(*(taken.get(lsn, set()) for lsn in lsns.tolist()))
        number = next(n for n in range(len(groups) + 1) if n not in used)
        if number == len(groups):
            groups.append([])
        groups[number].append(promise)
        for lsn in lsns.tolist():
            taken.setdefault(lsn, set()).add(number)
    return groups
