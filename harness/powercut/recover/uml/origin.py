# SPDX-License-Identifier: Apache-2.0
"""What stands on the origin in the guest, and the least that must be sent to change it.

From state to state most of the disk stays the same.  So a state is compared with the one
before it: only the pages in which another write shows (powercut.recover.uml.shown), or which lie
under writes that are not in both, are built anew, and of those only the pages whose bytes differ
go to the guest.  The base image is mapped, never copied, and never written.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Iterator, Sequence
from itertools import compress, count, repeat
from pathlib import Path
from typing import ClassVar, Final, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from powercut.crash.arrays import expand
from powercut.crash.states import CrashState
from powercut.mapped import mapped, stretches
from powercut.model.errors import HostError
from powercut.recover.port import ImageWrite
from powercut.recover.state_image import StateImage
from powercut.recover.uml.shown import NOTHING_LAID, Laid, ShownWrites

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
        """First and last page of every write."""
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
        """Lays `writes` over `pages`, and over no other page."""
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
