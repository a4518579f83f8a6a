# SPDX-License-Identifier: Apache-2.0
"""Crash states drawn by fair coins, one for each atomic unit that is not durable."""

from __future__ import annotations

import random

from powercut.crash.applied import Kept
from powercut.crash.states import CrashState, StateSpace


def drawn_by_coins(
    space: StateSpace, instant: int, draw: random.Random, *, policy: str
) -> CrashState:
    """A state at `instant` in which each unit of each volatile write survives, or does not.

    So most writes of several units are torn.
    """
    survivors, torn = [], []
    for write in space.volatile(instant).tolist():
        first, count = int(space.begin[write]) // space.unit, space.touched_units(write)
        kept = [draw.random() < 0.5 for _ in range(count)]
        if any(kept):
            survivors.append(write)
        if any(kept) and not all(kept):
            torn += [_unit_of(space, write, first + at) for at in range(count) if kept[at]]
    return space.legal(CrashState(instant, tuple(survivors), tuple(torn), policy=policy))


def _unit_of(space: StateSpace, write: int, unit: int) -> Kept:
    begin = max(unit * space.unit, int(space.begin[write]))
    return Kept(write, begin, min((unit + 1) * space.unit, int(space.end[write])))
