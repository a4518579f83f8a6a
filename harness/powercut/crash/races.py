# SPDX-License-Identifier: Apache-2.0
"""Overlapping writes that were in flight together: they may reach the medium in either order."""

from __future__ import annotations

from typing import Final

import numpy as np

from powercut.crash.arrays import I64, expand
from powercut.crash.layers import Layers
from powercut.crash.sets import DurabilitySets
from powercut.model.units import NEVER

_FEW: Final = 64
_UNKNOWN: Final = -1


class Races:
    """Every two writes of a recording that race; rare in practice.

    `write` was submitted before `after`; both have an element for each race, and races are
    sorted by `write`, then by `after`.
    """

    def __init__(self, begin: I64, end: I64, sets: DurabilitySets, layers: Layers) -> None:
        self._begin, self._end = begin, end
        self._sets = sets
        self._layers = layers
        self.write, self.after = self._found()
        self._hidden_ns = np.full(len(self.write), _UNKNOWN, dtype=np.int64)
        self._by_after = np.argsort(self.after, kind="stable")

    def at(self, instant: int) -> list[tuple[int, int]]:
        """Those of writes issued before `instant`, without those that a durable write hides."""
        seen = np.flatnonzero(self._sets.submitted_ns[self.after] < instant)
        for race in seen[self._hidden_ns[seen] == _UNKNOWN].tolist():
            self._hidden_ns[race] = self._hidden_from_ns(race)
        seen = seen[self._hidden_ns[seen] >= instant]
        return list(zip(self.write[seen].tolist(), self.after[seen].tolist(), strict=True))

    def beside(self, youngest: I64, places: I64, instant: int) -> I64:
        """How many durable writes race with the `youngest` durable one of each of `places`."""
        count = np.zeros(len(places), dtype=np.int64)
        after = self.after[self._by_after]
        low, high = after.searchsorted(youngest), after.searchsorted(youngest, side="right")
        at, race = expand(low, high - low)
        if len(at):
            other = self.write[self._by_after[race]]
            begin, end = self._layers.bounds[places[at]], self._layers.bounds[places[at] + 1]
            covers = (self._begin[other] <= begin) & (end <= self._end[other])
            np.add.at(count, at[covers & (self._sets.durable_ns[other] < instant)], 1)
        return count

    def _hidden_from_ns(self, race: int) -> int:
        """From when on a durable write hides the bytes that both of a race write."""
        pair = [int(self.write[race]), int(self.after[race])]
        youngest = int(self._sets.successor[pair].max())
        if youngest >= len(self._begin):
            return int(NEVER)
        begin, end = int(self._begin[pair].max()), int(self._end[pair].min())
        since_ns = int(self._sets.submitted_ns[youngest])
        return self._layers.hidden_ns(begin, end, youngest, since_ns)

    def _found(self) -> tuple[I64, I64]:
        writes = np.flatnonzero(self._sets.is_write & (self._end > self._begin))
        ahead = np.searchsorted(writes, self._sets.successor[writes]) - np.arange(len(writes)) - 1
        found = [np.empty((2, 0), dtype=np.int64)]
        lag = 1
        while len(first := np.flatnonzero(ahead >= lag)):
            if len(first) <= _FEW:  # such as those that never completed: one by one
                for index in first.tolist():
                    later = writes[index + lag : index + 1 + int(ahead[index])]
                    found.append(self._overlaps(np.full(len(later), writes[index]), later))
                break
            found.append(self._overlaps(writes[first], writes[first + lag]))
            lag += 1
        write, after = np.concatenate(found, axis=1)
        order = np.lexsort((after, write))
        return write[order], after[order]

    def _overlaps(self, first: I64, second: I64) -> I64:
        some = (self._begin[first] < self._end[second]) & (self._begin[second] < self._end[first])
        return np.stack([first[some], second[some]])
