# SPDX-License-Identifier: Apache-2.0
"""Which write of a recording shows in each place of the disk, from state to state.

Where one write or the base image shows, that is known by the number of the write alone
(powercut.crash.layers).  Where a write is torn, or comes after a younger one, all that may show
is laid in order, byte by byte.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from powercut.crash.applied import Kept
from powercut.crash.arrays import I64, expand, sorted_unique
from powercut.crash.layers import NO_WRITE
from powercut.crash.states import CrashState, StateSpace
from powercut.model.timeline import RequestKind

Mask = npt.NDArray[np.bool_]
Stretches = tuple[I64, I64, Mask]
"""Bytes from begin to before end, in order; of each whether there were and are but zeroes, or what
is in the base image."""
Piece = tuple[int, int, int, int]
"""A place, the write that shows there, and the bytes from begin to before end."""

_MIXED: Final = -2
"""Instead of a write: see `ShownWrites._mixed`."""


class Laid(NamedTuple):
    """What is laid over some pages: of those `whole`, by their index, one write shows everywhere,
    and stands in the log from `source` on; `pieces` lie in the others."""

    whole: I64
    source: I64
    pieces: list[Piece]


NOTHING_LAID: Final = Laid(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), [])
"""The base image shows."""


class ShownWrites:
    """The disk of the current state of one space; of none at first: the base image alone."""

    def __init__(self, space: StateSpace) -> None:
        self.space = space
        self.layers = space.layers
        requests = space.timeline.requests
        self._data = np.asarray(space.timeline.data).view(np.ndarray)  # slices of a map are slow
        self._carries = requests.kind == int(RequestKind.WRITE)
        # From a byte's place on the disk to its place in the log.
        self._skew = requests.data_offset - requests.offset
        if bool((self._carries & (requests.data_offset < 0) & self.layers.counts).any()):
            raise ValueError("a write carries no payload")
        self._shown = np.full(self.layers.places, NO_WRITE, dtype=np.int64)
        self._top = np.full(self.layers.places, NO_WRITE, dtype=np.int64)
        self._durable = 0
        self._whole: I64 = np.empty(0, dtype=np.int64)
        self._special: I64 = np.empty(0, dtype=np.int64)
        # In these places, each with its parts in order: begin, end, write.
        self._mixed: dict[int, list[tuple[int, int, int]]] = {}

    def describes(self, state: CrashState) -> bool:
        """Whether the rules here are enough for `state`: for each legal one they are."""
        named = [*state.survivors, *(move.write for move in state.moves)]
        if named and not (min(named) >= 0 and max(named) < len(self._carries)):
            return False
        torn = np.array([kept.write for kept in state.torn], dtype=np.int64)
        return (
            bool(self.layers.counts[named].all())
            and all(move.after > move.write for move in state.moves)
            and bool(np.isin(torn, np.array(state.survivors, dtype=np.int64)).all())
            and not bool((self.space.sets.durable_ns[torn] < state.instant).any())
        )

    def advance(self, state: CrashState | None) -> Stretches:
        """Makes `state` (None: the base image) the current one; returns what may have changed."""
        whole, special, durable = self._parts(state)
        places = self._differing(whole, special, durable)
        before = self._shown[places]
        after = np.full(len(places), NO_WRITE, dtype=np.int64)
        if state is not None:
            owner, under = self.layers.covered(whole)
            self._top[under] = whole[owner]  # rising: the youngest stays
            np.maximum(self.layers.youngest(places, state.instant), self._top[places], out=after)
            self._mixed = self._mixed_places(state, special, whole[owner], under)
            self._top[under] = NO_WRITE
            mixed = np.array(sorted(self._mixed), dtype=np.int64)
            after[np.searchsorted(places, mixed)] = _MIXED
        else:
            self._mixed = {}
        self._shown[places] = after
        self._whole, self._special, self._durable = whole, special, durable
        changed = (before != after) | (after == _MIXED)
        plain = self._is_plain(before) & self._is_plain(after)
        return self._stretches(places[changed], plain[changed])

    def stretches(self) -> Stretches:
        """What may not be as in the base image."""
        places = np.flatnonzero(self._shown != NO_WRITE)
        return self._stretches(places, self._is_plain(self._shown[places]))

    def laid(self, pages: I64, page: int, step: int) -> Iterator[Laid]:
        """What shows in `pages` (rising, of `page` bytes each) and is not in the base image: for
        each `step` of them."""
        steps = -(-len(pages) // step)
        if not self.layers.places:
            yield from (NOTHING_LAID for _ in range(steps))
            return
        bounds = self.layers.bounds
        start = pages * page
        first = np.maximum(bounds.searchsorted(start, side="right") - 1, 0)
        last = np.minimum(bounds.searchsorted(start + page), self.layers.places)
        owner, place = expand(first, np.maximum(last - first, 0))
        write = self._shown[place]
        owner, place, write = (rows[write != NO_WRITE] for rows in (owner, place, write))
        begin = np.maximum(bounds[place], start[owner])
        end = np.minimum(bounds[place + 1], start[owner] + page)
        new = np.ones(len(place), dtype=np.bool_)
        new[1:] = (write[1:] != write[:-1]) | (begin[1:] != end[:-1]) | (write[1:] == _MIXED)
        new[1:] |= owner[1:] != owner[:-1]
        starts = np.flatnonzero(new)
        ends = end[np.append(starts[1:], len(place)) - 1] if len(starts) else end
        owner, place, write, begin = (rows[starts] for rows in (owner, place, write, begin))
        # Most pages show one write, from end to end.
        whole = (ends - begin == page) & (write != _MIXED)
        whole[whole] = self._carries[write[whole]]
        within, source = owner[whole], begin[whole] + self._skew[write[whole]]
        rest = np.flatnonzero(~whole)
        rows = (place[rest], write[rest], begin[rest], ends[rest])
        pieces = list(zip(*(row.tolist() for row in rows), strict=True))
        edges = np.arange(steps + 1) * step
        parts = zip(
            pairwise(within.searchsorted(edges).tolist()),
            pairwise(owner[rest].searchsorted(edges).tolist()),
            edges[:-1].tolist(),
            strict=True,
        )
        for (low, high), (from_piece, to_piece), at in parts:
            yield Laid(within[low:high] - at, source[low:high], pieces[from_piece:to_piece])

    def whole(self, laid: Laid, page: int) -> npt.NDArray[np.uint8]:
        """The bytes of the pages that show one write alone, a row each."""
        if len(self._data) < page:
            return np.empty((0, page), dtype=np.uint8)
        windows = np.lib.stride_tricks.as_strided(
            self._data, (len(self._data) - page + 1, page), (1, 1), writeable=False
        )
        return np.asarray(windows[laid.source])

    def lay(self, pieces: list[Piece], image: npt.NDArray[np.uint8]) -> None:
        """Lays them over `image`, in which their pages are as in the base image."""
        for at, one, low, high in pieces:
            if one != _MIXED:
                self._copy(image, one, low, high)
                continue
            for part_begin, part_end, part in self._mixed[at]:
                self._copy(image, part, max(low, part_begin), min(high, part_end))

    def _copy(self, image: npt.NDArray[np.uint8], write: int, begin: int, end: int) -> None:
        if begin >= end:
            return
        if self._carries[write]:
            skew = int(self._skew[write])
            image[begin:end] = self._data[begin + skew : end + skew]
        else:
            image[begin:end] = 0

    def _stretches(self, places: I64, plain: Mask) -> Stretches:
        return self.layers.bounds[places], self.layers.bounds[places + 1], plain

    def _is_plain(self, shown: I64) -> Mask:
        zeroes = (shown >= 0) & ~self._carries[np.maximum(shown, 0)]
        return np.asarray(zeroes | (shown == NO_WRITE))

    def _parts(self, state: CrashState | None) -> tuple[I64, I64, int]:
        """Survivors that are whole and in their turn; what is torn or moved; durable writes."""
        nothing = np.empty(0, dtype=np.int64)
        if state is None:
            return nothing, nothing, 0
        survivors = np.unique(np.array(state.survivors, dtype=np.int64))
        special = {kept.write for kept in state.torn}
        for move in state.moves:
            if self.space.sets.durable_ns[move.write] < state.instant or move.write in survivors:
                special.add(move.write)
        apart = np.array(sorted(special), dtype=np.int64)
        whole = np.setdiff1d(survivors, apart, assume_unique=True) if special else survivors
        return whole, apart, self.layers.durable(state.instant)

    def _differing(self, whole: I64, special: I64, durable: int) -> I64:
        """The places under whatever was or is not in both states, rising."""
        low, high = sorted((self._durable, durable))
        writes = np.concatenate(
            [
                self.layers.by_durability[low:high],
                np.setxor1d(self._whole, whole, assume_unique=True),
                self._special,
                special,
            ]
        )
        first, count = self.layers.span(writes)
        if int(count.sum()) >= self.layers.places:
            return np.arange(self.layers.places)
        return sorted_unique(expand(first, count)[1])

    def _mixed_places(
        self, state: CrashState, special: I64, whole: I64, under: I64
    ) -> dict[int, list[tuple[int, int, int]]]:
        """What shows in the places of `special`; `whole` are the writes over the places `under`."""
        mixed: dict[int, list[tuple[int, int, int]]] = {}
        if not len(special):
            return mixed
        owner, place = self.layers.covered(special)
        over: dict[int, set[int]] = defaultdict(set)
        for at, write in zip(place.tolist(), special[owner].tolist(), strict=True):
            over[at].add(write)
        places = np.array(sorted(over), dtype=np.int64)
        # Of the durable writes the youngest hides all that are not moved; those are special.
        for at, write in zip(
            places.tolist(), self.layers.youngest(places, state.instant).tolist(), strict=True
        ):
            if write != NO_WRITE:
                over[at].add(write)
        here = np.isin(under, places)
        for at, write in zip(under[here].tolist(), whole[here].tolist(), strict=True):
            over[at].add(write)
        point = {move.write: move.after for move in state.moves}
        torn = {write: self._places_of(write, kept) for write, kept in state.torn_parts.items()}
        for at, writes in over.items():
            whole_place = [tuple(self.layers.bounds[at : at + 2].tolist())]
            mixed[at] = [
                (begin, end, write)
                for write in sorted(
                    writes, key=lambda one: (point.get(one, one), one in point, one)
                )
                for begin, end in (torn[write].get(at, ()) if write in torn else whole_place)
            ]
        return mixed

    def _places_of(self, write: int, kept: list[Kept]) -> dict[int, list[tuple[int, int]]]:
        """What is left of a torn write in each of its places."""
        parts: dict[int, list[tuple[int, int]]] = defaultdict(list)
        first, count = (int(column[0]) for column in self.layers.span(np.array([write])))
        bounds = self.layers.bounds[first : first + count + 1].tolist()
        for part in kept:
            low = max(bisect_right(bounds, part.begin) - 1, 0)
            for at in range(low, min(bisect_left(bounds, part.end), count)):
                stretch = max(part.begin, bounds[at]), min(part.end, bounds[at + 1])
                parts[first + at].append(stretch)
        return parts
