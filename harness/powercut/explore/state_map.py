# SPDX-License-Identifier: Apache-2.0
"""Counts where the states of an exploration lie: when, and how much they lack.  Judges nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np

from powercut.crash.arrays import I64
from powercut.crash.states import CrashState, StateSpace
from powercut.model.verdict import Finding, Verdict
from powercut.store.exploration import COLUMNS, ROWS, TENTHS, MapField, StateMap

_OUTCOMES: Final = (Verdict.SAFE, Verdict.LOSSY, Verdict.INCONCLUSIVE)


class StateMapper:
    """Takes states as they are judged; instants beyond `begin` and `end` count at the edge."""

    def __init__(self, space: StateSpace, begin: int, end: int) -> None:
        self._space = space
        self._begin, self._end = begin, max(end, begin)
        self._counts: dict[Verdict, Counter[int]] = {one: Counter() for one in _OUTCOMES}

    def add(self, state: CrashState, findings: Iterable[Finding]) -> None:
        """A state of the recording, and what was found in it."""
        volatile = len(self._space.volatile(state.instant))
        missing = max(0, volatile - len(state.survivors))
        verdict = max((one.verdict for one in findings), default=Verdict.SAFE)
        self.add_many(state.instant, volatile, np.array([missing]), [verdict])

    def add_many(self, instant: int, volatile: int, missing: I64, verdicts: list[Verdict]) -> None:
        """States of one instant: how many of the `volatile` writes each lacks, and its verdict."""
        span = self._end - self._begin + 1
        column = min(max(instant - self._begin, 0) * COLUMNS // span, COLUMNS - 1)
        rows = -(-missing * TENTHS // max(volatile, 1))
        rows = np.where((missing >= volatile) & (missing > 0), ROWS - 1, rows)
        for row, verdict in zip(rows.tolist(), verdicts, strict=True):
            self._counts[verdict][column * ROWS + row] += 1

    def result(self) -> StateMap:
        """All of them so far."""
        fine, lossy, undecided = (self._counts[one] for one in _OUTCOMES)
        fields = [
            MapField(
                column=place // ROWS,
                row=place % ROWS,
                states=fine[place] + lossy[place] + undecided[place],
                lossy=lossy[place],
                undecided=undecided[place],
            )
            for place in sorted({*fine, *lossy, *undecided})
        ]
        return StateMap(begin=self._begin, end=self._end, fields=tuple(fields))
