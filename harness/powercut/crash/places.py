# SPDX-License-Identifier: Apache-2.0
"""Which writes cover which places of the disk, and what each of them puts there.

A *unit* is the largest power of two of bytes, 64 to 4096, that every offset and
length is a multiple of: a write covers a unit wholly or not at all.  A *piece* is
one unit of one write.  For the units in which some chunk of the log ever stood, the
pieces are sorted by unit and, within a unit, by submission.

The 64-byte chunks of a unit are cut into *columns* so that no run of the log's chunks
begins or ends inside a column; what happens to its first chunk happens to all of it.
Each piece has one tag per column: the log's chunk that it puts first there, or `OTHER`.

The work goes in windows of LSNs so that memory stays bounded whatever the length of
the recording: `OTHER` is then also whatever lies outside the window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.crash.arrays import I64, expand, sorted_unique
from powercut.crash.scan import Runs
from powercut.crash.sets import DurabilitySets
from powercut.model.timeline import Timeline
from powercut.wal.record import CHUNK

OTHER: Final = -1
WINDOW_CHUNKS: Final = 1 << 21
"""About how many chunks of the log, or of writes that carry them, one window holds."""


@dataclass(frozen=True)
class Pieces:
    """Pieces of one window, sorted by unit, then by submission.

    `unit`: number of the unit on the disk.  `write`: the request.  `tags`: one row
    per piece, one element per column.  `widths`: chunks in each column.
    """

    unit: I64
    write: I64
    tags: I64
    widths: I64

    @property
    def first_of_unit(self) -> npt.NDArray[np.bool_]:
        """True where a piece is the first of its unit."""
        first = np.ones(len(self.unit), dtype=np.bool_)
        first[1:] = self.unit[1:] != self.unit[:-1]
        return first


class CoverIndex:
    """Finds the requests that change given units; built once per timeline."""

    def __init__(
        self, timeline: Timeline, sets: DurabilitySets, extra_bounds: I64 | None = None
    ) -> None:
        requests = timeline.requests
        self._successor = sets.successor
        changes = np.flatnonzero(requests.is_write & (requests.length > 0))
        begin = requests.offset[changes]
        end = begin + requests.length[changes]
        # What a write-zeroes or a discard touches of a chunk in part, it destroys.
        begin, end = begin // CHUNK * CHUNK, -(-end // CHUNK) * CHUNK
        bounds = [begin, end]
        if extra_bounds is not None:
            bounds.append(extra_bounds)
        self.unit = common_unit(np.concatenate(bounds))
        self.chunks = self.unit // CHUNK
        self._write, self._begin, self._end = changes, begin // self.unit, end // self.unit
        self._latest = np.maximum.accumulate(sets.successor[changes])
        self._sizes = list(self._by_size())

    def _by_size(self) -> Iterator[tuple[int, I64, I64]]:
        """Size classes: the most units that one covers, its members by place, and their places.

        A class has members up to twice as large as its smallest, so that few of those that a
        search among them must look at lie short of the place it is for.
        """
        size = np.frexp((self._end - self._begin - 1).astype(np.float64))[1]
        for exponent in np.flatnonzero(np.bincount(size)).tolist():
            members = np.flatnonzero(size == exponent)
            members = members[np.argsort(self._begin[members], kind="stable")]
            yield 1 << exponent, members, self._begin[members]

    def covers(self, units: I64, since: int, until: int) -> tuple[I64, I64, I64]:
        """Writes, with first and last+1 index into `units` (sorted), that cover some of them.

        Only those that matter to what request `since` or a later one wrote there: not
        those that completed before it was submitted, nor requests from `until` on.
        """
        # Whatever stands before `first` had completed when `since` was submitted.
        first = int(np.searchsorted(self._latest, since, side="right"))
        last = int(np.searchsorted(self._write, until, side="left"))
        near = [self._near(units, reach, at) for reach, _, at in self._sizes]
        if last - first <= sum(high - low for low, high in near):
            candidates = np.arange(first, max(first, last))
        else:
            found = [
                members[low:high]
                for (_, members, _), (low, high) in zip(self._sizes, near, strict=True)
            ]
            candidates = np.sort(np.concatenate(found))
            candidates = candidates[(candidates >= first) & (candidates < last)]
        candidates = candidates[self._successor[self._write[candidates]] > since]
        low = np.searchsorted(units, self._begin[candidates], side="left")
        high = np.searchsorted(units, self._end[candidates], side="left")
        some = high > low
        return self._write[candidates[some]], low[some], high[some]

    def _near(self, units: I64, reach: int, begin: I64) -> tuple[int, int]:
        """Which of a size class, that begin at `begin`, may cover some of `units`."""
        first = np.searchsorted(begin, int(units[0]) - reach, side="right")
        return int(first), int(np.searchsorted(begin, int(units[-1]), side="right"))


def common_unit(bounds: I64) -> int:
    """Largest power of two, from 64 to 4096 bytes, that divides all `bounds`."""
    bits = int(np.bitwise_or.reduce(bounds, initial=4096))
    return max(CHUNK, min(4096, bits & -bits))


def windows(runs: Runs, chunks_per_record: int) -> Iterator[tuple[int, int, Runs]]:
    """Cuts the log into windows of whole records: first and last+1 chunk, and their runs."""
    if not len(runs):
        return
    order = np.argsort(runs.chunk, kind="stable")
    runs = runs.select(order)
    reach = int(runs.count.max())
    carried = np.cumsum(runs.count)
    last_chunk = int((runs.chunk + runs.count).max())
    first = int(runs.chunk[0]) // chunks_per_record * chunks_per_record
    while first < last_chunk:
        index = int(np.searchsorted(runs.chunk, first, side="left"))
        before = int(carried[index - 1]) if index else 0
        enough = int(np.searchsorted(carried, before + WINDOW_CHUNKS, side="left"))
        until = int(runs.chunk[enough]) if enough < len(runs) else last_chunk
        until = min(max(until, first + 1), first + WINDOW_CHUNKS)
        until = -(-until // chunks_per_record) * chunks_per_record
        low = int(np.searchsorted(runs.chunk, first - reach, side="left"))
        high = int(np.searchsorted(runs.chunk, until, side="left"))
        yield first, until, clip(runs.select(np.arange(low, high)), first, until)
        first = until


def clip(runs: Runs, first: int, until: int) -> Runs:
    """The parts of `runs` that hold chunks from `first` to `until` - 1."""
    skip = np.maximum(first - runs.chunk, 0)
    count = np.minimum(runs.chunk + runs.count, until) - runs.chunk - skip
    clipped = Runs(runs.write, runs.place + skip, runs.chunk + skip, count, runs.bytes_scanned)
    return clipped.select(count > 0)


def pieces_of(index: CoverIndex, runs: Runs, until: int | None = None) -> Pieces:
    """The pieces in the units that `runs` touch, tagged with what `runs` say.

    Pieces that no run's safety can depend on are left out: older ones that completed
    before the first run was submitted, and those of requests from `until` on.
    """
    per_unit = index.chunks
    end = runs.place + runs.count
    first_unit = runs.place // per_unit
    units = sorted_unique(expand(first_unit, (end - 1) // per_unit - first_unit + 1)[1])
    until = int(np.iinfo(np.int64).max) if until is None else until
    write, low, high = index.covers(units, int(runs.write.min()), until)
    piece_of_cover, rank = expand(low, high - low)
    order = np.argsort(rank, kind="stable")  # the covers are in submission order already
    bounds = np.concatenate([[0], runs.place % per_unit, end % per_unit])
    columns = np.flatnonzero(np.bincount(bounds, minlength=per_unit))
    tags = np.full((len(rank), len(columns)), OTHER, dtype=np.int64)
    # A run's units follow one another in `units`, so its columns follow in its write's pieces.
    cover = np.searchsorted(write, runs.write)
    starts = np.cumsum(high - low) - (high - low)
    piece = starts[cover] + np.searchsorted(units, first_unit) - low[cover]
    column_of = np.searchsorted(columns, np.arange(per_unit))
    begin = piece * len(columns) + column_of[runs.place % per_unit]
    until = (piece + end // per_unit - first_unit) * len(columns) + column_of[end % per_unit]
    owner, flat = expand(begin, until - begin)
    into = (flat // len(columns) - piece[owner]) * per_unit + columns[flat % len(columns)]
    tags.reshape(-1)[flat] = (runs.chunk - runs.place % per_unit)[owner] + into
    widths = np.diff(np.append(columns, per_unit))
    return Pieces(units[rank[order]], write[piece_of_cover][order], tags[order], widths)
