# SPDX-License-Identifier: Apache-2.0
"""Which required records are on the medium of the disk as the cut really left it.

On the medium are, besides durable(cut), the ranges that a full cache destaged
and the ranges that the cut left.  Of several writes to one place the one
submitted last shows: the capture disk keeps that order even where two were in flight
together.  If the power did not fail below the disk, every write that completed shows,
and one that was in flight may.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from powercut.crash.arrays import expand
from powercut.crash.evidence import Evidence
from powercut.crash.places import OTHER, CoverIndex, Pieces, clip, pieces_of, windows
from powercut.model.exposure import Survival, ranges_of
from powercut.model.timeline import Timeline
from powercut.model.units import NEVER
from powercut.wal.record import CHUNK

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def survival(evidence: Evidence, *, first_lsn: int = 1) -> Survival:
    """The same from evidence that was gathered already (with `deep`, or bit errors go unseen)."""
    required = evidence.claims.required(int(NEVER))
    if required is None or required.last < first_lsn:
        return Survival(required, (), ())
    per_record = evidence.layout.chunks
    first = max(required.first, first_lsn)
    base, end = (first - 1) * per_record, required.last * per_record
    sure, perhaps = (np.zeros(end - base, dtype=np.bool_) for _ in range(2))
    runs = evidence.runs
    wanted = (runs.chunk + runs.count > base) & (runs.chunk < end)
    ranges = _Ranges.of(evidence.timeline)
    index = CoverIndex(evidence.timeline, evidence.sets, ranges.bounds)
    in_flight = _in_flight(evidence.timeline)
    for _, _, window in windows(clip(runs.select(wanted), base, end), per_record):
        if len(window):
            pieces = pieces_of(index, window)
            kept = _on_medium(pieces, evidence, ranges.whole, index.unit)
            torn = _on_medium(pieces, evidence, ranges.touched, index.unit) & ~kept
            sure[_chunks_shown(pieces, kept, torn) - base] = True
            perhaps[_chunks_shown(pieces, kept | in_flight[pieces.write]) - base] = True
    lsns = np.arange(first, required.last + 1, dtype=np.int64)
    unsure = (sure != perhaps).reshape(-1, per_record).any(axis=1)
    missing = ~(sure | perhaps).reshape(-1, per_record).all(axis=1)
    return Survival(required, ranges_of(lsns[missing]), ranges_of(lsns[unsure & ~missing]))


@dataclass(frozen=True)
class _Ranges:
    """Destaged and surviving ranges in rising order of request and offset."""

    write: I64
    begin: I64
    end: I64

    @staticmethod
    def of(timeline: Timeline) -> _Ranges:
        ranges = timeline.destaged + timeline.survived
        rows = np.array(
            [(r.request, r.offset, r.offset + r.length) for r in ranges], dtype=np.int64
        ).reshape(-1, 3)
        rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
        return _Ranges(rows[:, 0], rows[:, 1], rows[:, 2])

    @property
    def whole(self) -> _Ranges:
        return _Ranges(self.write, -(-self.begin // CHUNK) * CHUNK, self.end // CHUNK * CHUNK)

    @property
    def touched(self) -> _Ranges:
        """The chunks that each range touches, if only in part."""
        return _Ranges(self.write, self.begin // CHUNK * CHUNK, -(-self.end // CHUNK) * CHUNK)

    @property
    def bounds(self) -> I64:
        """Where pieces have to end so that each is in a range wholly or not at all."""
        parts = (self.whole, self.touched)
        return np.concatenate([column for part in parts for column in (part.begin, part.end)])

    def cover(self, write: I64, begin: I64, end: I64) -> Mask:
        """True where some range of `write` holds all bytes from `begin` to `end`."""
        if not len(self.write):
            return np.zeros(len(write), dtype=np.bool_)
        stride = int(max(self.end.max(), end.max(initial=0))) + 1
        starts = self.write * stride + self.begin
        reach = np.maximum.accumulate(self.write * stride + self.end)
        index = np.searchsorted(starts, write * stride + begin, side="right") - 1
        # Of the ranges that begin no later, the one that reaches furthest decides.
        return np.asarray((index >= 0) & (reach[index] >= write * stride + end), dtype=np.bool_)


def _in_flight(timeline: Timeline) -> Mask:
    """Writes of an uncut disk of which it is unknown whether it still did them."""
    requests = timeline.requests
    if timeline.cut is not None:
        return np.zeros(len(requests), dtype=np.bool_)
    return np.asarray(requests.is_write & (requests.completed_ns == NEVER), dtype=np.bool_)


def _on_medium(pieces: Pieces, evidence: Evidence, ranges: _Ranges, unit: int) -> Mask:
    """The pieces that are on the medium, or would be if no later one covered them."""
    requests = evidence.timeline.requests
    if evidence.timeline.cut is None:
        return np.asarray(requests.completed_ns[pieces.write] != NEVER, dtype=np.bool_)
    # What became durable at the cut or after it has been set to NEVER.
    durable = evidence.sets.durable_ns[pieces.write] != NEVER
    begin = pieces.unit * unit
    return np.asarray(durable | ranges.cover(pieces.write, begin, begin + unit), dtype=np.bool_)


def _chunks_shown(pieces: Pieces, kept: Mask, torn: Mask | None = None) -> I64:
    """The log's chunks that the last kept pieces show; a torn piece shows none."""
    tags = pieces.tags
    if torn is not None and torn.any():
        tags = np.where(torn[:, None], np.int64(OTHER), tags)
        kept = kept | torn
    unit, tags = pieces.unit[kept], tags[kept]
    last = np.ones(len(unit), dtype=np.bool_)
    last[:-1] = unit[1:] != unit[:-1]
    tags = tags[last]
    widths = np.broadcast_to(pieces.widths, tags.shape)
    return expand(tags[tags != OTHER], widths[tags != OTHER])[1]
