# SPDX-License-Identifier: Apache-2.0
"""Delta debugging: the smallest part of a cause that still has the effect.

The algorithm is ddmin of Zeller and Hildebrandt, Simplifying and Isolating
Failure-Inducing Input, IEEE Transactions on Software Engineering 28(2), 2002, figure 5.
The result is 1-minimal: without any single one of its items the effect is gone.  It
depends on the order of the items and on nothing else, so it is the same every time.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


class OutOfBudget(Exception):
    """No test is left; raised by a caller's test to end the search."""


def ddmin(items: Sequence[Item], has_effect: Callable[[Sequence[Item]], bool]) -> list[Item]:
    """The 1-minimal part of `items` that still has the effect; `items` as a whole must.

    If `has_effect` raises OutOfBudget, the smallest part so far is returned; whoever
    raised it knows that it may not be minimal.
    """
    current = list(items)
    parts = 2
    try:
        if current and has_effect([]):
            return []
        while len(current) >= 2:
            smaller = _reduce(current, parts, has_effect)
            if smaller is None:
                if parts >= len(current):
                    break
                parts = min(2 * parts, len(current))
                continue
            current, was_part = smaller
            parts = 2 if was_part else max(parts - 1, 2)
    except OutOfBudget:
        pass
    return current


def _reduce(
    current: list[Item], parts: int, has_effect: Callable[[Sequence[Item]], bool]
) -> tuple[list[Item], bool] | None:
    """A part of `current` with the effect, else the rest without a part; None if neither."""
    bounds = [len(current) * index // parts for index in range(parts + 1)]
    ranges = list(itertools.pairwise(bounds))
    for begin, end in ranges:
        if has_effect(current[begin:end]):
            return current[begin:end], True
    if parts > 2:  # with two parts, the rest without one is the other
        for begin, end in ranges:
            rest = current[:begin] + current[end:]
            if has_effect(rest):
                return rest, False
    return None
