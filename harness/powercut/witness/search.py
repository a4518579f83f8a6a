# SPDX-License-Identifier: Apache-2.0
"""The search for the smallest loss of writes that still loses something: of disks and of folders.

Relative to everything issued before the cut, a crash state lacks volatile writes, whole or in part,
and may have others out of order: these are the items.  ddmin removes items as long as one of the
same losses remains; then each write that is left is reduced to the atomic units that matter.
States that are not legal count as harmless.  Where what survives needs other changes, these are
there, too: so a set of items stands for the largest legal part of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from powercut import __version__
from powercut.crash.applied import Kept
from powercut.crash.legality import why_illegal
from powercut.crash.states import CrashState, Move, StateSpace
from powercut.explore.clock import Clock
from powercut.explore.request import Budget
from powercut.explore.state_judge import Judgement
from powercut.model.errors import UsageError
from powercut.model.verdict import Verdict, losses
from powercut.recording.state_names import Recording, resolve_state, save_state
from powercut.store.witness import Witness

_SECTOR = 512

Progress = Callable[[int, int], None]
"""Told after each state: how many were recovered, how many writes are still dropped."""


def nothing_told(tests: int, left: int) -> None:
    """No progress for anyone."""
    del tests, left


class Judge(Protocol):
    """Recovers and checks one state after the other."""

    tests: int

    def judge(self, state: CrashState) -> Judgement:
        """What came of it.  Raises HostError."""


@dataclass(frozen=True, order=True)
class Drop:
    """The bytes `begin` to `end` - 1 of a volatile write did not survive."""

    write: int
    begin: int
    end: int


Item = Drop | Move


def items_of(space: StateSpace, state: CrashState) -> list[Item]:
    """What distinguishes `state` from everything issued at its instant, in rising order."""
    kept = state.torn_parts
    survivors = set(state.survivors)
    items: list[Item] = []
    for write in space.volatile(state.instant).tolist():
        begin, end = int(space.begin[write]), int(space.end[write])
        if write not in survivors:
            items.append(Drop(write, begin, end))
            continue
        for part in sorted(kept.get(write, []), key=lambda part: part.begin):
            if part.begin > begin:
                items.append(Drop(write, begin, part.begin))
            begin = max(begin, part.end)
        if write in kept and begin < end:
            items.append(Drop(write, begin, end))
    return [*items, *state.moves]


def state_of(space: StateSpace, instant: int, items: Sequence[Item]) -> CrashState:
    """The opposite of `items_of`: everything issued but for `items`."""
    drops: dict[int, list[Drop]] = {}
    for item in items:
        if isinstance(item, Drop):
            drops.setdefault(item.write, []).append(item)
    survivors: list[int] = []
    torn: list[Kept] = []
    for write in space.volatile(instant).tolist():
        begin, end = int(space.begin[write]), int(space.end[write])
        parts = []
        for drop in sorted(drops.get(write, [])):
            if drop.begin > begin:
                parts.append(Kept(write, begin, drop.begin))
            begin = max(begin, drop.end)
        if write not in drops:
            survivors.append(write)
            continue
        if begin < end:
            parts.append(Kept(write, begin, end))
        if parts:
            survivors.append(write)
            torn += parts
    moves = tuple(item for item in items if isinstance(item, Move))
    return CrashState(instant, tuple(survivors), tuple(torn), moves, policy="witness")


@dataclass(frozen=True)
class SearchLimit:
    """How far a search may go; `set_aside` are the seconds that confirmation will take."""

    budget: Budget
    clock: Clock
    set_aside: float

    def allows_one_more(self, tests: int) -> bool:
        """Whether another state may be recovered after `tests`, and the witness at the end."""
        if self.budget.states is not None and tests >= self.budget.states:
            return False
        return self.clock.has_time(2, tests, self.set_aside)


@dataclass
class WitnessSearch:
    """ddmin over items, then over the atomic units of each write that is left."""

    space: StateSpace
    instant: int
    judge: Judge
    first: Judgement
    lsn: int | None
    limit: SearchLimit
    progress: Progress
    first_items: list[Item] = field(default_factory=list)
    out_of_budget: bool = False
    unknown: bool = False  # a state could not be judged: it may well lose the record
    _known: dict[tuple[Item, ...], bool] = field(default_factory=dict)

    def run(self, items: list[Item]) -> list[Item]:
        """The smallest part of `items` that was found to lose a record."""
        self.first_items = items
        self._known[tuple(items)] = True
        items = ddmin(items, self._loses)
        for drop in [item for item in items if isinstance(item, Drop)]:
            if self.out_of_budget:
                break
            units = self._units(drop)
            if len(units) < 2:
                continue
            others = [item for item in items if item is not drop]
            self._known[tuple(others + list[Item](units))] = True
            smallest = ddmin(units, lambda part, rest=others: self._loses([*rest, *part]))  # type: ignore[misc]
            items = [*others, *_joined(smallest)]
        return sorted(items, key=lambda item: (isinstance(item, Move), item.write))

    def _units(self, drop: Drop) -> list[Drop]:
        """The atomic units of a drop; sectors, where the disk tears anywhere."""
        if self.space.touched_units(drop.write) == 1:
            return [drop]
        unit = max(self.space.unit, _SECTOR)
        edges = list(range((drop.begin // unit + 1) * unit, drop.end, unit))
        begins, ends = [drop.begin, *edges], [*edges, drop.end]
        return [Drop(drop.write, b, e) for b, e in zip(begins, ends, strict=True)]

    def _loses(self, items: Sequence[Item]) -> bool:
        key = tuple(items)
        if key not in self._known:
            state = self.space.legal(state_of(self.space, self.instant, items))
            if why_illegal(self.space, state):
                self._known[key] = False
            else:
                if not self.limit.allows_one_more(self.judge.tests):
                    self.out_of_budget = True
                    raise OutOfBudget
                judgement = self.judge.judge(state)
                self.unknown |= judgement.verdict is Verdict.INCONCLUSIVE
                self._known[key] = self._same_loss(judgement)
                self.progress(self.judge.tests, len(items))
        return self._known[key]

    def _same_loss(self, judgement: Judgement) -> bool:
        """Whether one of the records of the beginning is still lost, in the same way.

        How a record is gone depends on its neighbours: lost, a hole, torn or stale is one
        way.  That the system does not come back is another, and so is a record that
        were never written.
        """
        common = losses(judgement.findings) & losses(self.first.findings)
        if self.lsn is not None:
            return any(lsn == self.lsn for _, lsn in common)
        return bool(common)


@dataclass(frozen=True)
class Found:
    """What a search came to: the state from which it began, by its name, and the witness."""

    start: str
    search: WitnessSearch
    state: CrashState
    items: Sequence[Item]
    judgement: Judgement

    @property
    def drops(self) -> list[Drop]:
        """What the witness lacks."""
        return [item for item in self.items if isinstance(item, Drop)]

    @property
    def told(self) -> int | None:
        """The record or operation that is told of; None if none is lost by its number."""
        lost = self.judgement.lost
        return self.search.lsn if self.search.lsn is not None else lost[0].first if lost else None


def first_loss(
    recording: Recording, judge: Judge, name: str | None, candidates: Iterable[str]
) -> tuple[str, CrashState, Judgement]:
    """The state `name`, else the first of the `candidates` that loses something, and what it loses.

    Raises UsageError if that is nothing.
    """
    tried = []
    for candidate in [name] if name is not None else candidates:
        state = resolve_state(recording, candidate)
        if name is not None and state.again is not None:
            raise UsageError(
                f"state {name} was cut again during its recovery: which writes of the recording "
                "would have to be there says nothing about it",
                hint="look at it with `powercut export --format state` or `powercut shell`",
            )
        if state.again is not None:
            continue
        judgement = judge.judge(state)
        if judgement.verdict is Verdict.LOSSY:
            return candidate, state, judgement
        if name is not None:
            raise UsageError(
                f"state {name} loses nothing: {judgement.message or 'everything is there'}",
                hint="name another state; `powercut explore` finds those that lose something",
            )
        tried.append(candidate)
    raise UsageError(
        "no loss is known in this recording" + (f": tried {', '.join(tried)}" if tried else ""),
        hint="name a state, or let `powercut explore` look for one",
    )


def smallest_loss(
    space: StateSpace,
    judge: Judge,
    first: tuple[str, CrashState, Judgement],
    lsn: int | None,
    limit: SearchLimit,
    progress: Progress,
    order: Callable[[list[Item]], list[Item]] = lambda items: items,
) -> Found:
    """Searches from the `first` loss; of equal causes the one is kept that stands first in `order`.

    Raises UsageError if `lsn` is not lost there.
    """
    name, state, judgement = first
    if lsn is not None and lsn not in judgement.lsns:
        raise UsageError(
            f"state {name} does not lose {lsn}",
            hint=f"it loses {', '.join(map(str, judgement.lost)) or 'none by number'}",
        )
    search = WitnessSearch(space, state.instant, judge, judgement, lsn, limit, progress)
    items = search.run(order(items_of(space, state)))
    smallest = space.legal(state_of(space, state.instant, items))
    return Found(name, search, smallest, items_of(space, smallest), judge.judge(smallest))


def document(recording: Recording, found: Found, **told: Any) -> Witness:
    """witness.json of what was found, with what else is `told` of it; keeps its state beside the
    recording.
    """
    search, judgement = found.search, found.judgement
    return Witness(
        powercut=__version__,
        recording=recording.title,
        start=found.start,
        state=save_state(recording, found.state),
        crash_state=recording.reference(found.state),
        instant_ns=found.state.instant,
        start_ns=recording.start_ns,
        imported=recording.imported,
        required=judgement.required[0] if judgement.required else None,
        lost=judgement.lost,
        kinds=tuple(sorted(judgement.kinds, key=lambda kind: kind.value)),
        message=judgement.message,
        volatile=len(recording.space.volatile(found.state.instant)),
        dropped_before=len({i.write for i in search.first_items if isinstance(i, Drop)}),
        out_of_order=len(found.items) - len(found.drops),
        minimal=not (search.out_of_budget or search.unknown),
        tests=search.judge.tests,
        **told,
    )


def _joined(drops: Sequence[Drop]) -> list[Drop]:
    joined: list[Drop] = []
    for drop in drops:
        if joined and joined[-1].write == drop.write and joined[-1].end == drop.begin:
            joined[-1] = Drop(drop.write, joined[-1].begin, drop.end)
        else:
            joined.append(drop)
    return joined


# Delta debugging: the smallest part of a cause that still has the effect.
#
# The algorithm is ddmin of Zeller and Hildebrandt, Simplifying and Isolating
# Failure-Inducing Input, IEEE Transactions on Software Engineering 28(2), 2002, figure 5.
# The result is 1-minimal: without any single one of its items the effect is gone.  It
# depends on the order of the items and on nothing else, so it is the same every time.

ItemT = TypeVar("ItemT")


class OutOfBudget(Exception):
    """No test is left; raised by a caller's test to end the search."""


def ddmin(items: Sequence[ItemT], has_effect: Callable[[Sequence[ItemT]], bool]) -> list[ItemT]:
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
    current: list[ItemT], parts: int, has_effect: Callable[[Sequence[ItemT]], bool]
) -> tuple[list[ItemT], bool] | None:
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
