# SPDX-License-Identifier: Apache-2.0
"""The youngest durable write over each place of the disk, at any instant, without a look at all.

A *place* is a stretch of the disk between two neighbouring bounds of writes: a write covers a
place wholly or not at all, whatever its alignment, and n writes make at most 2n places.

A write that covers many places is filed under few *nodes*: places in aligned groups of 8, of 64
and so on, one level each.  On each level its entries are sorted by node, then by the instant from
which the write is durable; beside each stands the youngest write of the node so far.  One
binary search a level then finds the youngest durable write of a place at an instant, so a state
costs what it differs in, however long the recording is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from powercut.crash.arrays import I64, expand, sorted_unique
from powercut.model.units import NEVER

NO_WRITE: Final = -1
"""Instead of a write: the base image."""

_GROUP_BITS: Final = 3
_FIRST_LOOK: Final = 64


@dataclass(frozen=True)
class _Level:
    """Entries of one size of node: `key` is node and durable rank, `youngest` node and write."""

    shift: int
    key: I64
    write: I64
    youngest: I64


class Layers:
    """The writes of a recording over the places of its disk.

    `begin` and `end` (bytes) and `durable_ns` have an element for each request; `writes` are the
    requests that count, rising, each with `begin` < `end`.
    """

    def __init__(self, begin: I64, end: I64, writes: I64, durable_ns: I64) -> None:
        self.bounds = sorted_unique(np.concatenate([begin[writes], end[writes]]))
        self.counts = np.zeros(len(begin), dtype=np.bool_)
        self.counts[writes] = True
        self._end = end
        self._first = np.zeros(len(begin), dtype=np.int64)
        self._count = np.zeros(len(begin), dtype=np.int64)
        self._first[writes] = self.bounds.searchsorted(begin[writes])
        self._count[writes] = self.bounds.searchsorted(end[writes]) - self._first[writes]
        kept = writes[durable_ns[writes] != NEVER]
        order = kept[np.argsort(durable_ns[kept], kind="stable")]
        self.by_durability = order
        """The writes that ever become durable, in that order."""
        self._durable_ns = durable_ns[order]
        rank = np.zeros(len(begin), dtype=np.int64)
        rank[order] = np.arange(len(order))
        self._stride = max(len(begin), 1) + 1
        self._levels = self._filed(kept, rank)

    @property
    def places(self) -> int:
        """How many there are."""
        return max(0, len(self.bounds) - 1)

    def durable(self, instant: int) -> int:
        """How many of `by_durability` are durable at `instant`: so many from the first on."""
        return int(self._ranks(instant))

    def _ranks(self, instant: int | I64) -> I64:
        """As `durable`, for each of many."""
        return np.asarray(self._durable_ns.searchsorted(instant))

    def span(self, writes: I64) -> tuple[I64, I64]:
        """The first place that each of `writes` covers, and how many."""
        return self._first[writes], self._count[writes]

    def covered(self, writes: I64) -> tuple[I64, I64]:
        """Every place under each of `writes`: the write's index in `writes`, and the place."""
        return expand(*self.span(writes))

    def youngest(self, places: I64, instant: int | I64) -> I64:
        """The durable write submitted last over each of `places`; `NO_WRITE` where none is.

        `instant` is one for all places, or one for each.
        """
        found = np.full(len(places), NO_WRITE, dtype=np.int64)
        durable = self._ranks(instant)
        for level in self._levels:
            node = places >> level.shift
            at = level.key.searchsorted(node * self._stride + durable) - 1
            best = level.youngest[at] - node * self._stride
            there = (at >= 0) & (best >= 0)
            np.maximum(found, np.where(there, best, NO_WRITE), out=found)
        return found

    def hidden_ns(self, begin: int, end: int, youngest: int, since_ns: int) -> int:
        """From when on a durable write hides all bytes from `begin`, a bound, to `end`; `NEVER` if
        none does.

        Only writes from `youngest` on count; none of them is durable before `since_ns`.
        """
        place = int(self.bounds.searchsorted(begin))
        soonest = len(self._durable_ns)
        for level in self._levels:
            node = (place >> level.shift) * self._stride
            low = int(level.key.searchsorted(node + self.durable(since_ns)))
            high = int(level.key.searchsorted(node + min(soonest, self._stride)))
            step = _FIRST_LOOK
            while low < high:
                some = level.write[low : min(low + step, high)]
                hides = np.flatnonzero((some >= youngest) & (self._end[some] >= end))
                if len(hides):
                    soonest = int(level.key[low + int(hides[0])]) - node
                    break
                low, step = low + step, 2 * step
        return int(self._durable_ns[soonest]) if soonest < len(self._durable_ns) else int(NEVER)

    def _filed(self, writes: I64, rank: I64) -> list[_Level]:
        first, count = self.span(writes)
        last = first + count
        levels, shift = [], 0
        while len(writes):
            low = (first + (1 << _GROUP_BITS) - 1) >> _GROUP_BITS
            high = last >> _GROUP_BITS
            whole = low < high  # what has whole groups is filed under these on the next level
            head = np.where(whole, low << _GROUP_BITS, last) - first
            tail = np.where(whole, last - (high << _GROUP_BITS), 0)
            starts = np.concatenate([first, last - tail])
            owner, node = expand(starts, np.concatenate([head, tail]))
            levels.append(self._level(shift, node, np.concatenate([writes, writes])[owner], rank))
            writes, first, last = writes[whole], low[whole], high[whole]
            shift += _GROUP_BITS
        return [level for level in levels if len(level.key)]

    def _level(self, shift: int, node: I64, write: I64, rank: I64) -> _Level:
        key = node * self._stride + rank[write]
        order = np.argsort(key)
        node, write = node[order], write[order]
        # A later node is larger whatever its writes are: the maximum begins anew with each.
        return _Level(shift, key[order], write, np.maximum.accumulate(node * self._stride + write))
