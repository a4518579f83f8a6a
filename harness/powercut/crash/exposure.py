# SPDX-License-Identifier: Apache-2.0
"""Exposure: for how long, after its ack, some legal crash state still lost a record.

A chunk of the log is *safe* at one place of the disk at instant *t* if every crash
state that is legal at *t* shows it there.  Of the writes that cover the place, call
those that put the chunk there its carriers and all others strangers.  Which write
shows in a crash state is the last one of a subset that holds durable(t), in an order
that the device could have produced: a write that completed before another was
submitted comes before it; all else is open.  It follows that the chunk is safe at *t*
if and only if

1. some carrier is in durable(t), and
2. every stranger that was issued before *t* completed before some carrier in
   durable(t) was submitted.

(If a stranger itself is the youngest durable write there, no carrier can satisfy 2
for it.)  Between two strangers the second condition does not change, so each stretch
of carriers between strangers, an *episode*, makes the chunk safe from the first
instant at which one of its carriers that comes after all strangers is durable, until
the next stranger is submitted.

A record is *exposed* at *t* if it is required at *t* (crash/claims.py) and one of its
chunks is safe nowhere.  In a raw log a chunk belongs in one place; elsewhere any
place counts, because a journal or a moved file may lead to it.  So a record that is
exposed is lost in the crash state that keeps nothing but what must be kept, whereas
one that is not exposed may still be lost if nothing leads to its bytes any more:
only recovery knows that.

What the rule does not see: a chunk that stands twice within one atomic unit of the
disk counts as two places that are lost independently.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from powercut.crash.arrays import expand, sorted_unique
from powercut.crash.evidence import Evidence, gather, last_event_ns
from powercut.crash.places import OTHER, CoverIndex, Pieces, clip, pieces_of, windows
from powercut.crash.sets import DurabilitySets
from powercut.model.exposure import ExposureReport
from powercut.model.history import History
from powercut.model.timeline import Timeline
from powercut.model.units import NEVER
from powercut.wal.layout import WalLayout

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def analyse(
    timeline: Timeline,
    history: History,
    run_id: bytes,
    layout: WalLayout,
    *,
    first_lsn: int = 1,
    deep: bool = False,
) -> ExposureReport:
    """The exposure of every record from `first_lsn` on that `history` acknowledges.

    Earlier records belong to an earlier recording.  `deep` as in `gather`.
    Raises `PowercutError` if a write is not made of whole chunks.
    """
    return exposure(gather(timeline, history, run_id, layout, deep=deep), first_lsn=first_lsn)


def exposure(evidence: Evidence, *, first_lsn: int = 1) -> ExposureReport:
    """The same from evidence that was gathered already."""
    claims, per_record = evidence.claims, evidence.layout.chunks
    lsn = np.arange(first_lsn, claims.acked + 1, dtype=np.int64)
    ack_ns = claims.acked_ns(lsn)
    durable_ns = np.full(len(lsn), NEVER, dtype=np.int64)
    broken_ns = durable_ns.copy()
    write = np.full(len(lsn), -1, dtype=np.int64)
    begin, end = (first_lsn - 1) * per_record, claims.acked * per_record
    wanted = (evidence.runs.chunk + evidence.runs.count > begin) & (evidence.runs.chunk < end)
    index = CoverIndex(evidence.timeline, evidence.sets)
    released_ns = claims.released_ns(lsn)
    for low, high, runs in windows(clip(evidence.runs.select(wanted), begin, end), per_record):
        if len(runs):
            records = slice((low - begin) // per_record, (high - begin) // per_record)
            last = max(int(released_ns[records].max(initial=0)), int(ack_ns[records].max()))
            # A write that comes after all of these were given up cannot hurt any of them,
            # but a carrier, however late, must be among the pieces.
            until = int(np.searchsorted(evidence.sets.submitted_ns, last, side="right"))
            until = max(until, int(runs.write.max()) + 1)
            merged = _merge(episodes(pieces_of(index, runs, until), evidence.sets))
            fates = _record_fates(merged, first_lsn, per_record, ack_ns)
            durable_ns[fates.record] = fates.safe_ns
            broken_ns[fates.record] = fates.until_ns
            write[fates.record] = fates.write
    return _report(evidence, lsn, ack_ns, durable_ns, broken_ns, write)


def _report(
    evidence: Evidence, lsn: I64, ack_ns: I64, durable_ns: I64, broken_ns: I64, write: I64
) -> ExposureReport:
    """Sets what happened to each record's bytes against when they were required."""
    end_ns = np.minimum(evidence.claims.released_ns(lsn), evidence.horizon_ns)
    required = ack_ns < end_ns
    known = ack_ns < evidence.horizon_ns
    over_ns = max(last_event_ns(evidence.timeline), int(ack_ns.max(initial=0)) + 1)
    until_ns = np.minimum(np.minimum(durable_ns, end_ns), np.maximum(over_ns, ack_ns + 1))
    exposed_ns = np.where(required & (durable_ns > ack_ns), until_ns - ack_ns, 0)
    undone_ns = np.where(required & (broken_ns < end_ns), broken_ns, np.int64(NEVER))
    epoch = (
        np.where(write < 0, -1, evidence.sets.epoch[write]) if len(evidence.sets.epoch) else write
    )
    return ExposureReport(
        lsn, ack_ns, durable_ns, exposed_ns, undone_ns, write, epoch, known,
        evidence.runs.bytes_scanned,
    )  # fmt: skip


@dataclass(frozen=True)
class Episodes:
    """Stretches of carriers of `count` consecutive chunks from `chunk` on at one place.

    The chunks are safe there at the instants after `safe_ns` up to `until_ns`; both
    are `NEVER` if there is no such instant.  `write` is the first carrier.
    """

    chunk: I64
    count: I64
    safe_ns: I64
    until_ns: I64
    write: I64

    def select(self, which: Mask | I64) -> Episodes:
        """Only those that `which` picks."""
        return Episodes(
            self.chunk[which],
            self.count[which],
            self.safe_ns[which],
            self.until_ns[which],
            self.write[which],
        )


def episodes(pieces: Pieces, sets: DurabilitySets) -> Episodes:
    """All episodes of all chunks in `pieces`."""
    count, columns = pieces.tags.shape
    first_of_unit = pieces.first_of_unit
    # Column by column: in each, one place after the other, its writes in order.
    tags = np.ascontiguousarray(pieces.tags.T)
    starts = np.empty((columns, count), dtype=np.bool_)
    starts[:, 1:] = tags[:, 1:] != tags[:, :-1]
    starts[:, first_of_unit] = True
    start = np.flatnonzero(starts)
    tag = tags.reshape(-1)[start]
    column, row = np.divmod(start, count)
    safe_ns = np.minimum.reduceat(np.tile(sets.durable_ns[pieces.write], columns), start)
    # The next episode begins with a stranger, unless it is at another place.
    following = np.append(row[1:], 0)
    same_place = ~first_of_unit[following]
    same_place[-1] = False
    stranger_ns = sets.submitted_ns[pieces.write[following]]
    until_ns = np.where(same_place, stranger_ns, np.int64(NEVER))
    racing = _racing(pieces, sets)[row] & (tag != OTHER)
    for at in np.flatnonzero(racing).tolist():
        safe_ns[at] = _safe_despite_race(pieces, sets, int(start[at]))
    nowhere = safe_ns >= until_ns
    safe_ns[nowhere] = until_ns[nowhere] = NEVER
    every = Episodes(tag, pieces.widths[column], safe_ns, until_ns, pieces.write[row])
    return every.select(tag != OTHER)


def _racing(pieces: Pieces, sets: DurabilitySets) -> Mask:
    """True for pieces submitted while an earlier write to the same unit was in flight."""
    successor = sets.successor[pieces.write]
    unit = np.cumsum(pieces.first_of_unit)
    stride = len(sets.durable_ns) + 1
    latest = np.maximum.accumulate(successor + unit * stride)
    racing = np.zeros(len(unit), dtype=np.bool_)
    racing[1:] = (unit[1:] == unit[:-1]) & (latest[:-1] - unit[1:] * stride > pieces.write[1:])
    return racing


def _safe_despite_race(pieces: Pieces, sets: DurabilitySets, start: int) -> int:
    """`safe_ns` of the episode that begins at `start` in column order, by the rule itself."""
    count = len(pieces.unit)
    column, row = divmod(start, count)
    unit, tag = pieces.unit[row], pieces.tags[row, column]
    first = int(np.searchsorted(pieces.unit, unit, side="left"))
    before = np.arange(first, row)
    strangers = before[pieces.tags[before, column] != tag]
    # A carrier comes after a stranger if it is not older than the stranger's successor.
    youngest = int(sets.successor[pieces.write[strangers]].max(initial=0))
    safe_ns = int(NEVER)
    while row < count and pieces.unit[row] == unit and pieces.tags[row, column] == tag:
        write = int(pieces.write[row])
        if write >= youngest:
            safe_ns = min(safe_ns, int(sets.durable_ns[write]))
        row += 1
    return safe_ns


def _merge(episodes: Episodes) -> Episodes:
    """Joins episodes of the same chunks, wherever they are, that leave no instant between them.

    The result is in the order of chunks, then of `safe_ns`; of two with a chunk in
    common, all are in common.
    """
    episodes = episodes.select(np.argsort(episodes.chunk, kind="stable"))
    end = episodes.chunk + episodes.count
    if bool((episodes.chunk[1:] >= end[:-1]).all()):
        return episodes
    edges = sorted_unique(np.concatenate([episodes.chunk, end]))
    first = np.searchsorted(edges, episodes.chunk)
    owner, edge = expand(first, np.searchsorted(edges, end) - first)
    episodes = episodes.select(owner)
    order = np.lexsort((episodes.write, episodes.safe_ns, edge))
    episodes, edge = episodes.select(order), edge[order]
    new_chunk = np.ones(len(edge), dtype=np.bool_)
    new_chunk[1:] = edge[1:] != edge[:-1]
    ends = sorted_unique(episodes.until_ns)
    group = np.cumsum(new_chunk) * len(ends)
    reach = ends[np.maximum.accumulate(np.searchsorted(ends, episodes.until_ns) + group) - group]
    begins = new_chunk.copy()
    begins[1:] |= episodes.safe_ns[1:] > reach[:-1]
    begin = np.flatnonzero(begins)
    last = np.append(begin[1:], len(begins)) - 1
    at = edges[edge[begin]]
    width = edges[edge[begin] + 1] - at
    return Episodes(at, width, episodes.safe_ns[begin], reach[last], episodes.write[begin])


@dataclass(frozen=True)
class _Fates:
    """For each `record` (index): when it is safe after its ack, until when, by which write."""

    record: I64
    safe_ns: I64
    until_ns: I64
    write: I64


def _record_fates(episodes: Episodes, first_lsn: int, per_record: int, ack_ns: I64) -> _Fates:
    """What merged episodes mean for each record that they hold chunks of."""
    chunk = episodes.chunk - (first_lsn - 1) * per_record
    end = chunk + episodes.count
    owner, record = expand(chunk // per_record, (end - 1) // per_record - chunk // per_record + 1)
    order = np.argsort(record, kind="stable")
    owner, record = owner[order], record[order]
    held = np.minimum(end[owner], (record + 1) * per_record)
    held -= np.maximum(chunk[owner], record * per_record)
    # Safety that ended before the ack does not help.
    late = episodes.until_ns[owner] <= ack_ns[record]
    safe_ns = np.where(late, np.int64(NEVER), episodes.safe_ns[owner])
    until_ns = np.where(late, np.int64(NEVER), episodes.until_ns[owner])
    # Of several episodes of the same chunks the first that is not late decides.
    part = np.ones(len(owner), dtype=np.bool_)
    part[1:] = (record[1:] != record[:-1]) | (chunk[owner[1:]] != chunk[owner[:-1]])
    first = np.flatnonzero(part)
    best = _first_at(safe_ns, np.minimum.reduceat(safe_ns, first), first)
    record, held, safe_ns, until_ns = record[best], held[best], safe_ns[best], until_ns[best]
    write = episodes.write[owner[best]]
    first = np.flatnonzero(np.append(True, record[1:] != record[:-1]))
    worst_ns = np.maximum.reduceat(safe_ns, first)
    whole = np.add.reduceat(held, first) == per_record
    return _Fates(
        record[first],
        np.where(whole, worst_ns, np.int64(NEVER)),
        np.minimum.reduceat(until_ns, first),
        np.where(whole, write[_first_at(safe_ns, worst_ns, first)], -1),
    )


def _first_at(values: I64, wanted: I64, first: I64) -> I64:
    """In each group of `values` (beginning at `first`): the first index that has its `wanted`."""
    sizes = np.diff(np.append(first, len(values)))
    hits = np.flatnonzero(values == np.repeat(wanted, sizes))
    return np.asarray(hits[np.searchsorted(hits, first)], dtype=np.int64)
