# SPDX-License-Identifier: Apache-2.0
"""In which order groups of like states come: in rounds.

A round lasts until each kind has been missing while each other kind was there, missing just after
an ack, missing with all others after each event, and torn: the next group is always the one that
shows most of what the round has not shown.  So a few states show what depends on two kinds, as most
bugs do; later rounds show it at other stages, rare ones and common ones in turn.

Where stages have many kinds, a round has only some of them: so many as can show `_PAIRS` pairs, or
one.  The next rounds have the others, before one comes again.  So what it takes to find the next
group is bounded, whatever the recording.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from powercut.crash.shapes import Form, Pair, Shape
from powercut.crash.stages import Stage

_PAIRS: Final = 50_000

_FORMS: Final = {form: rank for rank, form in enumerate(Form)}

_Candidates = dict[tuple[int, int], tuple["Group", frozenset[Pair]]]
"""By stage and shape: each group, and what it shows."""


@dataclass(frozen=True)
class Group:
    """States that are alike."""

    stage: Stage
    shape: Shape


class Rounds:
    """An iterator over all groups; `shapes_of` has the shapes of a stage, in one order."""

    def __init__(
        self, stages: Sequence[Stage], shapes_of: Callable[[Stage], Sequence[Shape]]
    ) -> None:
        self._stages = stages
        self._shapes_of = shapes_of
        self._drawn: dict[int, set[int]] = {stage.number: set() for stage in stages}
        self._known: _Candidates = {}

    def __iter__(self) -> Iterator[Group]:
        """Those that show nothing come last."""
        ahead: list[Stage] = []
        left = list(self._stages)
        empty: list[Group] = []
        rare = True
        while left:
            ahead = ahead or left.copy()
            stages = _taken(ahead, rare=rare)
            candidates = self._candidates(stages)
            chosen = list(_round(candidates, rare=rare))
            for number, at in chosen:
                self._drawn[number].add(at)
                yield candidates[number, at][0]
            if not chosen:
                empty += [group for group, _ in candidates.values()]
                left = [stage for stage in left if stage not in stages]
            rare = not rare
        yield from sorted(empty, key=lambda group: _preference(group, rare=rare))

    def _candidates(self, stages: Sequence[Stage]) -> _Candidates:
        """The groups of `stages` that were not drawn yet."""
        self._known = {
            (stage.number, at): self._known.get((stage.number, at))
            or (Group(stage, shape), shape.pairs(stage))
            for stage in stages
            for at, shape in enumerate(self._shapes_of(stage))
            if at not in self._drawn[stage.number]
        }
        return self._known


def _taken(ahead: list[Stage], *, rare: bool) -> list[Stage]:
    """Takes the stages of a round out of those `ahead`, rare ones first or common ones."""
    sign = 1 if rare else -1
    ahead.sort(key=lambda stage: (sign * len(stage.instants), stage.number), reverse=True)
    taken = [ahead.pop()]
    pairs = _pairs_at_most(taken[0])
    while ahead and (pairs := pairs + _pairs_at_most(ahead[-1])) <= _PAIRS:
        taken.append(ahead.pop())
    return taken


def _pairs_at_most(stage: Stage) -> int:
    kinds = len(stage.outstanding)
    return kinds * (2 * kinds + 3 * len(stage.durable) + len(Form))


def _preference(group: Group, *, rare: bool) -> tuple[int, int, int]:
    """Of groups that show as much the smallest comes first."""
    count = len(group.stage.instants)
    return (_FORMS[group.shape.form], count if rare else -count, group.stage.number)


def _round(left: _Candidates, *, rare: bool) -> Iterator[tuple[int, int]]:
    """Which groups show every pair at least once: greedily, the most new ones first.

    What a group adds only shrinks while others are taken, so it is counted again only when it comes
    to the top (lazy greedy).
    """
    shown: set[Pair] = set()
    heap = [
        (-len(pairs), _preference(group, rare=rare), number)
        for number, (group, pairs) in left.items()
        if pairs
    ]
    heapq.heapify(heap)
    while heap:
        promised, preference, number = heapq.heappop(heap)
        adds = len(left[number][1] - shown)
        if not adds:
            continue
        if adds < -promised:
            heapq.heappush(heap, (-adds, preference, number))
            continue
        shown |= left[number][1]
        yield number
