# SPDX-License-Identifier: Apache-2.0
"""What stands on the origin in the guest, and the least that must be sent to change it.

From state to state most of the disk stays the same.  So a state is compared with the one
before it: only the pages in which another write shows (powercut.recover.uml.origin), or which lie
under writes that are not in both, are built anew, and of those only the pages whose bytes differ
go to the guest.  The base image is mapped, never copied, and never written.
"""

from __future__ import annotations

import operator
import weakref
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import compress, count, pairwise, repeat
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from powercut.crash.applied import Kept
from powercut.crash.arrays import I64, expand, sorted_unique
from powercut.crash.layers import NO_WRITE
from powercut.crash.states import CrashState, StateSpace
from powercut.mapped import mapped, stretches
from powercut.model.errors import HostError
from powercut.model.timeline import RequestKind
from powercut.recover.port import ImageWrite
from powercut.recover.state_image import StateImage

PAGE: Final = 4096
_LONG: Final = 256  # pages
_PLANNED: Final = 4096
"""Pages of which is found out at a time what is to be laid over them."""

Pages = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Changes:
    """The pages that have changed since the last call, by any process."""

    def __init__(self, pages: int) -> None:
        self._mask = np.zeros(pages, dtype=np.bool_)

    def add(self, pages: Pages) -> None:
        """These have changed."""
        self._mask[pages] = True

    def take(self) -> Pages:
        """What has changed, rising; from now on nothing has."""
        pages = np.flatnonzero(self._mask)
        self._mask[pages] = False
        return pages


class Origin:
    """The base image with the writes of the current state, page by page.

    Several may look at one: each has `Changes` of its own.
    """

    AT_A_TIME: ClassVar = 32
    """Pages that are copied and compared at a time: few enough to stay in a processor's cache."""

    def __init__(self, base: Path) -> None:
        size = base.stat().st_size
        if size == 0 or size % PAGE:
            raise HostError(
                f"{base}: {size} bytes are not a whole number of pages",
                hint=f"pad a copy of the image to a multiple of {PAGE} bytes",
            )
        self.size = size
        self._base = mapped(base).reshape(-1, PAGE)
        self._image = mapped(base, writable=True).reshape(-1, PAGE)
        self._filled = _filled_pages(base, self._base)
        self._flat = self._image.reshape(-1)
        self._mask = np.zeros(size // PAGE, dtype=np.bool_)
        self._current: Sequence[ImageWrite] = ()
        self._shown: ShownWrites | None = None
        self._writes: list[ImageWrite] = []
        self._first: Pages = np.empty(0, dtype=np.int64)
        self._last: Pages = np.empty(0, dtype=np.int64)
        self._watched: weakref.WeakSet[Changes] = weakref.WeakSet()

    def watch(self) -> Changes:
        """What will have changed since the base image, from the current state on."""
        changes = Changes(len(self._mask))
        changes.add(self._differing())
        self._watched.add(changes)
        return changes

    def advance(self, writes: Sequence[ImageWrite]) -> Pages:
        """Makes `writes` the current state; returns the pages whose bytes changed, rising.

        A write that is the same object as one of the state before is taken to be
        unchanged.  Raises ValueError for a write that is not on the disk.
        """
        if writes is self._current and isinstance(writes, StateImage):
            return np.empty(0, dtype=np.int64)
        state, shown, over = self._layered(writes)
        same = _common(self._writes, over)
        begun, ended = self._spans(over[same:])
        first = np.concatenate([self._first[:same], begun])
        last = np.concatenate([self._last[:same], ended])
        stale_old, stale_new = _differences(self._writes[same:], over[same:])
        self._mark(self._first[same:][stale_old], self._last[same:][stale_old])
        self._mark(begun[stale_new], ended[stale_new])
        if self._shown is not None and self._shown is not shown:
            self._mark_stretches(*self._shown.advance(None))
        if shown is not None:
            self._mark_stretches(*shown.advance(state))
        self._writes, self._first, self._last = over, first, last
        self._current, self._shown = writes, shown
        changed = self._renewed(self._marked())
        for watching in self._watched:
            watching.add(changed)
        return changed

    def _renewed(self, touched: Pages) -> Pages:
        """Builds the pages `touched` anew; returns those whose bytes changed."""
        changed = np.zeros(len(touched), dtype=np.bool_)
        # Each step looks at all writes that are laid one by one, which most states have none of.
        step = max(1, len(touched)) if self._writes else self.AT_A_TIME
        plan: Iterator[Laid] = repeat(NOTHING_LAID)
        for at in range(0, len(touched), step):
            if self._shown is not None and at % _PLANNED == 0:
                plan = self._shown.laid(touched[at : at + max(step, _PLANNED)], PAGE, step)
            changed[at : at + step] = self._renew(touched[at : at + step], next(plan))
        return touched[changed]

    def _renew(self, pages: Pages, laid: Laid) -> Mask:
        """Builds `pages` anew; of each whether its bytes changed."""
        words, base = self._image.view(np.uint64), self._base.view(np.uint64)
        changed = np.zeros(len(pages), dtype=np.bool_)
        rest = np.ones(len(pages), dtype=np.bool_)
        covered = pages[laid.whole]
        whole = self._shown.whole(laid, PAGE).view(np.uint64) if self._shown else words[:0]
        if not self._writes:  # then the write that covers a page is all that shows in it
            differ = (words.take(covered, axis=0) != whole).any(axis=1)
            words[covered[differ]] = whole[differ]
            changed[laid.whole] = differ
            rest[laid.whole] = False
        others = pages[rest]
        if len(others):
            before = words.take(others, axis=0)
            words[others] = base.take(others, axis=0)
            if self._writes:
                words[covered] = whole
            if self._shown is not None:
                self._shown.lay(laid.pieces, self._flat)
            if self._writes:
                self._replay(self._writes, self._first, self._last, others)
            changed[rest] = (words.take(others, axis=0) != before).any(axis=1)
        return changed

    def filled(self) -> Pages:
        """The pages that are not all zeroes or may not be: what an empty origin needs."""
        return np.asarray(np.union1d(self._filled, self._differing()))

    def content(self, pages: Pages) -> npt.NDArray[np.uint8]:
        """The bytes of `pages`, one row each."""
        return self._image.take(pages, axis=0)

    def not_as_base(self, pages: Pages) -> Mask:
        """Of each of `pages` whether it is not as in the base image."""
        words, base = self._image.view(np.uint64), self._base.view(np.uint64)
        differ = words.take(pages, axis=0) != base.take(pages, axis=0)
        return np.asarray(differ.any(axis=1))

    def base_pages(self, begin: int, end: int) -> npt.NDArray[np.uint8]:
        """The base image's pages from `begin` to before `end`, one row each, not to be changed."""
        return self._base[begin:end]

    def beyond_base(self, first: int, pages: npt.NDArray[np.uint8]) -> list[ImageWrite]:
        """A write for each of `pages`, from `first` on, that is not as in the base image."""
        differ = (pages != self.base_pages(first, first + len(pages))).any(axis=1)
        return [
            ImageWrite((first + page) * PAGE, PAGE, pages[page].copy())
            for page in np.flatnonzero(differ).tolist()
        ]

    def _spans(self, writes: list[ImageWrite]) -> tuple[Pages, Pages]:
        offset = np.array([write.offset for write in writes], dtype=np.int64)
        end = offset + np.array([write.length for write in writes], dtype=np.int64)
        if bool((end <= offset).any()):
            raise ValueError("a write of no length lies outside of every disk")
        self._require_inside(offset)
        self._require_inside(end)
        return offset // PAGE, (end - 1) // PAGE

    def _require_inside(self, bounds: Pages) -> None:
        if len(bounds) and (bounds.min() < 0 or bounds.max() > self.size):
            raise ValueError(f"a write lies outside of a disk of {self.size} bytes")

    def _layered(
        self, writes: Sequence[ImageWrite]
    ) -> tuple[CrashState | None, ShownWrites | None, list[ImageWrite]]:
        """The state of a recording (None: the base image), what says how it shows, and the writes
        over it."""
        shown = self._shown
        if isinstance(writes, StateImage):
            if shown is None or shown.space is not writes.space:
                shown = ShownWrites(writes.space)
                self._require_inside(shown.layers.bounds)
            if shown.describes(writes.state):
                return writes.state, shown, list(writes.over)
        return None, shown, list(writes)  # the caller may change the list, not its elements

    def _differing(self) -> Pages:
        """The pages of the current state that may not be as in the base image."""
        self._mark(self._first, self._last)
        if self._shown is not None:
            self._mark_stretches(*self._shown.stretches())
        return self._marked()

    def _mark_stretches(self, begin: Pages, end: Pages, plain: Mask) -> None:
        """Marks the pages of stretches of bytes; of `plain` ones only what is not zero anyway."""
        first, last = begin // PAGE, (end - 1) // PAGE
        self._mark(first[~plain], last[~plain])
        first, last = first[plain], last[plain]
        low = self._filled.searchsorted(first)
        high = self._filled.searchsorted(last, side="right")
        self._mask[self._filled[expand(low, high - low)[1]]] = True

    def _mark(self, first: Pages, last: Pages) -> None:
        long = last - first > _LONG
        for begin, end in zip(first[long].tolist(), last[long].tolist(), strict=True):
            self._mask[begin : end + 1] = True
        self._mask[expand(first[~long], (last - first + 1)[~long])[1]] = True

    def _marked(self) -> Pages:
        pages = np.flatnonzero(self._mask)
        self._mask[pages] = False
        return pages

    def _replay(self, writes: list[ImageWrite], first: Pages, last: Pages, pages: Pages) -> None:
        low = np.searchsorted(pages, first, side="left")
        high = np.searchsorted(pages, last, side="right")
        hit = np.flatnonzero(high > low)
        whole = (high - low == last - first + 1)[hit]
        for index, complete in zip(hit.tolist(), whole.tolist(), strict=True):
            if complete:
                self._lay(writes[index])
                continue
            for page in pages[low[index] : high[index]].tolist():
                self._lay(writes[index], page * PAGE, (page + 1) * PAGE)

    def _lay(self, write: ImageWrite, begin: int = 0, end: int = 2**63 - 1) -> None:
        """Lays the part of `write` between `begin` and `end` over the image."""
        begin = max(begin, write.offset)
        end = min(end, write.offset + write.length)
        if write.data is None:
            self._flat[begin:end] = 0
        else:
            self._flat[begin:end] = write.data[begin - write.offset : end - write.offset]


@runtime_checkable
class SharesOrigin(Protocol):
    """An engine at whose disk others may look, too, instead of keeping it a second time."""

    @property
    def origin(self) -> Origin:
        """What stands on its disk: the base image with the writes of the last state."""


def _common(old: list[ImageWrite], new: list[ImageWrite]) -> int:
    return next(compress(count(), map(operator.is_not, old, new)), min(len(old), len(new)))


def _differences(old: list[ImageWrite], new: list[ImageWrite]) -> tuple[Pages, Pages]:
    """Indices in `old` and in `new` of the writes that make the difference.

    The writes in both make none as long as they stand in the same order in both;
    if they do not, or one stands twice, every write after the common beginning counts.
    """
    was = list(map(id, old))
    now = list(map(id, new))
    before, after = set(was), set(now)
    both = before & after
    shared = [key for key in was if key in both]
    if shared == [key for key in now if key in both] and len(after) == len(now):
        gone = [index for index, key in enumerate(was) if key not in both]
        come = [index for index, key in enumerate(now) if key not in both]
    else:
        pairs = enumerate(map(operator.ne, was, now))
        same = next((at for at, differs in pairs if differs), min(len(was), len(now)))
        gone, come = list(range(same, len(was))), list(range(same, len(now)))
    return np.array(gone, dtype=np.int64), np.array(come, dtype=np.int64)


def _filled_pages(file: Path, base: npt.NDArray[np.uint8]) -> Pages:
    """Pages of the file that are not all zeroes; holes are not read."""
    step = 4096  # pages at a time: the comparison needs memory of the same size
    filled = []
    with file.open("rb") as opened:
        for begin, end in stretches(opened.fileno(), base.size):
            for at in range(begin // PAGE, -(-end // PAGE), step):
                part = base[at : min(at + step, -(-end // PAGE))].view(np.uint64)
                filled.append(np.flatnonzero(part.any(axis=1)) + at)
    return np.unique(np.concatenate(filled)) if filled else np.empty(0, dtype=np.int64)


# Which write of a recording shows in each place of the disk, from state to state.
#
# Where one write or the base image shows, that is known by the number of the write alone
# (powercut.crash.layers).  Where a write is torn, or comes after a younger one, all that may show
# is laid in order, byte by byte.

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
