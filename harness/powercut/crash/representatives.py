# SPDX-License-Identifier: Apache-2.0
"""The policy `representatives`: one crash state of each group of like ones first, then more.

Two streams (powercut.crash.order has the others, and says how they take turns):

- *groups*: one state of each group, below;
- *coins*: stage by stage, those first at which most kinds are outstanding, each atomic unit
  survives by a fair coin.  So several writes are missing in part, at rare stages as often as at
  common ones.

A group is a stage of the recording's work (powercut.crash.stages) and a shape of the state
(powercut.crash.shapes): the same work was being done, and the same kinds of writes are missing.

1. Groups come in rounds, each of which shows what depends on one or two kinds.
2. When each group has had its first state, each gets a second one, at another instant of its stage
   or of other writes of the same kinds, and so on.

A group may turn out to have no state at any of the instants at which it was looked for: then it is
none.  A state that was drawn already, in another group, is not drawn again, and stands for both.

Grouping assumes that one state of a group loses something if another one does.  Nothing makes that
so: coverage counts groups, and no verdict rests on it.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.crash.applied import Kept
from powercut.crash.explore import Coverage, Exploration, GroupCoverage
from powercut.crash.kinds import Kind, Kinds, Names, kinds_of
from powercut.crash.legality import why_illegal
from powercut.crash.shapes import POLICY, Form, Pair, Shape, ShapeMaker, shapes_of
from powercut.crash.stages import Stage, stages_of
from powercut.crash.states import CrashState, Model, StateSpace

_TRIES: Final = 4
"""Instants of a stage at which a state of a shape is looked for."""

_NEIGHBOURS: Final = 32
"""States are drawn in batches of up to so many, the first ones smaller, each in order of time:
neighbours differ in little, which is what an engine has to be sent."""


@dataclass
class Representatives(Exploration):
    """Draws states of groups and by coins.

    `per_policy` bounds the states of each group, and those by coins of each stage.  Of `policies`,
    those besides this one are swept as `Exploration` does when all groups have their states.
    `names` says what a file system calls the place of a write.
    """

    names: Names | None = None
    _seen_groups: int = field(default=0, init=False)
    _void_groups: int = field(default=0, init=False)
    _orders: dict[int, np.ndarray] = field(default_factory=dict, init=False)
    _shapes: dict[int, Sequence[Shape]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.policies = tuple(name for name in self.policies if name != POLICY)
        super().__post_init__()

    def labelled(self) -> Iterator[tuple[Group, CrashState]]:
        """The states of groups, each with its group."""
        order: list[Group] = []
        for group, state in self._drawn_at(iter(Rounds(self._stages, self._shapes_of)), 0):
            if state is None:
                self._void_groups += 1
                continue
            order.append(group)
            if self._is_new(state):
                yield group, state
            if self._full:
                return
            self._seen_groups += 1  # not before it was asked for more: it may not have been checked
        for nth in range(1, self.per_policy):
            some = False
            for group, state in self._drawn_at(iter(order), nth):
                if state is not None and self._is_new(state):
                    some = True
                    yield group, state
                if self._full:
                    return
            if not some:
                return

    def coverage(self) -> Coverage:
        drawn = super().coverage()
        if self.model is not Model.EXACT:
            return drawn
        every = sum(len(self._shapes_of(stage)) for stage in self._stages)
        groups = GroupCoverage(self._seen_groups, every - self._void_groups, len(self._stages))
        return replace(drawn, groups=groups)

    # --- coins -----------------------------------------------------------------------------

    def _by_coins(self) -> Iterator[CrashState]:
        """Stage by stage, the same stages again and again."""
        draw = random.Random(f"{self.seed}/{POLICY}/coins")
        stages = [stage for stage in self._stages if stage.outstanding]
        draw.shuffle(stages)
        stages.sort(key=_most_outstanding, reverse=True)
        for nth in range(self.per_policy):
            for stage in stages:
                if self._full:
                    return
                instants = self._order_of(stage)
                instant = int(instants[nth % len(instants)])
                # What is drawn blindly repeats itself long before it has met with all.
                if nth // len(instants) > 2.0 ** min(self._legal(instant) + 1, 62):
                    continue
                state = drawn_by_coins(self.space, instant, draw, policy=POLICY)
                if self._is_legal(state) and self._is_new(state):
                    yield state

    # --- groups -----------------------------------------------------------------------------

    @cached_property
    def _kinds(self) -> Kinds:
        return kinds_of(self.space, self.names)

    @cached_property
    def _stages(self) -> tuple[Stage, ...]:
        return stages_of(self.space, self.instants, self._kinds)[0]

    @cached_property
    def _maker(self) -> ShapeMaker:
        return ShapeMaker(self.space, self._kinds)

    @cached_property
    def _units(self) -> dict[Kind, int]:
        """How many atomic units a write of each kind touches at most."""
        written, kinds = self.space.sets.is_write, self._kinds
        most = np.ones(len(kinds.names), dtype=np.int64)
        np.maximum.at(most, kinds.rank[written], self.space.units[written])
        return dict(zip(kinds.names, most.tolist(), strict=True))

    def _shapes_of(self, stage: Stage) -> Sequence[Shape]:
        if stage.number not in self._shapes:
            shapes = shapes_of(stage, self._units, races=self.space.any_races)
            self._shapes[stage.number] = tuple(shapes)
        return self._shapes[stage.number]

    # --- states -----------------------------------------------------------------------------

    def _drawn_at(
        self, groups: Iterator[Group], nth: int
    ) -> Iterator[tuple[Group, CrashState | None]]:
        """State number `nth` of each group, batch by batch in order of time."""
        batch: list[tuple[Group, CrashState | None]] = []
        size = 1 if not nth else _NEIGHBOURS
        for group in groups:
            batch.append((group, self._member(group, nth)))
            if len(batch) >= min(size, _NEIGHBOURS):
                yield from sorted(batch, key=_instant)
                batch, size = [], 2 * size
        yield from sorted(batch, key=_instant)

    def _member(self, group: Group, nth: int) -> CrashState | None:
        instants = self._order_of(group.stage)
        for turn in range(min(_TRIES, len(instants))):
            at = nth * _TRIES + turn if nth else turn
            instant = int(instants[at % len(instants)])
            draw = random.Random(f"{self.seed}/{POLICY}/{group.stage.number}/{instant}/{nth}")
            state = self._maker.make(group.shape, instant, draw, nth if nth >= len(instants) else 0)
            if state is None:
                continue
            state = self.space.legal(state)
            if self._is_legal(state):
                return state
        return None

    def _is_legal(self, state: CrashState) -> bool:
        """On a device that keeps order; on any other each state that is made here is legal."""
        return not self.space.timeline.contract.ordered or not why_illegal(self.space, state)

    def _order_of(self, stage: Stage) -> np.ndarray:
        if stage.number not in self._orders:
            self._orders[stage.number] = permuted(
                stage.instants, self.seed, f"stage {stage.number}"
            )
        return self._orders[stage.number]

    def _is_new(self, state: CrashState) -> bool:
        """Whether it was not drawn before; counts it, unless the limit is reached."""
        if state.instant not in self._looked_at:
            self._looked_at[state.instant] = self._legal(state.instant)
        return self._take(state)


def _most_outstanding(stage: Stage) -> tuple[int, int]:
    return len(stage.outstanding), sum(count for _, count in stage.outstanding)


def _instant(drawn: tuple[Group, CrashState | None]) -> int:
    return -1 if drawn[1] is None else drawn[1].instant


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


# In which order groups of like states come: in rounds.
#
# A round lasts until each kind has been missing while each other kind was there, missing just after
# an ack, missing with all others after each event, and torn: the next group is always the one that
# shows most of what the round has not shown.  So a few states show what depends on two kinds, as
# most bugs do; later rounds show it at other stages, rare ones and common ones in turn.
#
# Where stages have many kinds, a round has only some of them: so many as can show `_PAIRS` pairs,
# or one.  The next rounds have the others, before one comes again.  So what it takes to find the
# next group is bounded, whatever the recording.

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


# Instants in an order by chance.
#
# Work has periods: a checkpoint each hundredth commit, a new segment each 64th.  An order that is
# even over a run is in step with some of them, and meets a fault of that period always or never.
# Chance is in step with nothing.

I64 = npt.NDArray[np.int64]


def permuted(instants: I64, seed: int, purpose: str) -> I64:
    """`instants` in an order that `seed` draws; orders for other purposes are independent of it."""
    digest = hashlib.blake2b(f"{seed}/{purpose}".encode(), digest_size=16).digest()
    draw = np.random.default_rng(int.from_bytes(digest))
    return np.asarray(draw.permutation(instants), dtype=np.int64)
