# SPDX-License-Identifier: Apache-2.0
"""Policies: who draws which crash states of one instant, lazily and by name.

| name | states |
| --- | --- |
| durable-only | nothing but what must be there |
| everything-issued | every volatile write survives |
| all-but-one | every volatile write but one |
| only-one | one volatile write and no other |
| prefixes | the volatile writes up to some completion |
| torn | one volatile write in part: beginning, end or stretches; with or without others |
| reorder | two overlapping writes in the order that is not theirs; with or without the others |
| random-subsets | each volatile write survives by a coin of random bias; without end |

A policy that is bounded before it comes to its end has drawn a random part of its states.
All of them are legal in the exact model.  On a device that keeps order those that would
not be are left out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from powercut.crash.applied import Kept
from powercut.crash.states import CrashState, StateSpace

Policy = Callable[[StateSpace, int, random.Random], Iterator[CrashState]]
"""Draws states of an instant; what is random comes from the generator it is given."""


def _durable_only(space: StateSpace, instant: int, _: random.Random) -> Iterator[CrashState]:
    del space
    yield CrashState(instant, (), policy="durable-only")


def _everything_issued(space: StateSpace, instant: int, _: random.Random) -> Iterator[CrashState]:
    yield CrashState(instant, tuple(space.volatile(instant).tolist()), policy="everything-issued")


def _shuffled(writes: Iterable[int], draw: random.Random) -> list[int]:
    """In random order, so that a bound does not always leave out the same ones."""
    shuffled = list(writes)
    draw.shuffle(shuffled)
    return shuffled


def _all_but_one(space: StateSpace, instant: int, draw: random.Random) -> Iterator[CrashState]:
    volatile = space.volatile(instant).tolist()
    for dropped in _shuffled(volatile, draw):
        survivors = tuple(write for write in volatile if write != dropped)
        yield CrashState(instant, survivors, policy="all-but-one")


def _only_one(space: StateSpace, instant: int, draw: random.Random) -> Iterator[CrashState]:
    for write in _shuffled(space.volatile(instant).tolist(), draw):
        yield CrashState(instant, (write,), policy="only-one")


def _prefixes(space: StateSpace, instant: int, draw: random.Random) -> Iterator[CrashState]:
    done = space.in_completion_order(space.volatile(instant)).tolist()
    for count in _shuffled(range(len(done) + 1), draw):
        yield CrashState(instant, tuple(sorted(done[:count])), policy="prefixes")


def _torn(space: StateSpace, instant: int, draw: random.Random) -> Iterator[CrashState]:
    volatile = space.volatile(instant).tolist()
    done = space.in_completion_order(space.volatile(instant)).tolist()
    for write in _shuffled(volatile, draw):
        before = done[: done.index(write)] if write in done else done
        for torn in tears(space, write, draw):
            for company in ([], [w for w in volatile if w != write], before):
                survivors = tuple(sorted([*company, write]))
                yield CrashState(instant, survivors, torn, policy="torn")


def tears(space: StateSpace, write: int, draw: random.Random) -> Iterator[tuple[Kept, ...]]:
    """First half, second half, random units of a write that touches more than one."""
    count = space.touched_units(write)
    if count < 2:
        return
    first = int(space.begin[write]) // space.unit
    middle = (first + draw.randint(1, count - 1)) * space.unit
    begin, end = int(space.begin[write]), int(space.end[write])
    yield (Kept(write, begin, middle),)
    yield (Kept(write, middle, end),)
    if count < 3:
        return
    # Random units as alternating stretches: few ranges, however long the write.
    cuts = sorted(draw.sample(range(1, count), min(count - 1, 1 + draw.randrange(7))))
    edges = [begin, *((first + cut) * space.unit for cut in cuts), end]
    parts = [Kept(write, edges[i], edges[i + 1]) for i in range(len(edges) - 1)]
    yield tuple(parts[draw.randrange(2) :: 2])


def _reorder(space: StateSpace, instant: int, _: random.Random) -> Iterator[CrashState]:
    volatile = space.volatile(instant).tolist()
    for move in space.races(instant):
        pair = tuple(write for write in (move.write, move.after) if write in volatile)
        for survivors in (tuple(volatile), pair):
            yield CrashState(instant, survivors, moves=(move,), policy="reorder")


def _random_subsets(space: StateSpace, instant: int, draw: random.Random) -> Iterator[CrashState]:
    volatile = space.volatile(instant).tolist()
    while volatile:
        bias = draw.random()
        survivors = tuple(write for write in volatile if draw.random() < bias)
        yield CrashState(instant, survivors, policy="random-subsets")


POLICIES: Final[dict[str, Policy]] = {
    "durable-only": _durable_only,
    "everything-issued": _everything_issued,
    "all-but-one": _all_but_one,
    "only-one": _only_one,
    "prefixes": _prefixes,
    "torn": _torn,
    "reorder": _reorder,
    "random-subsets": _random_subsets,
}
"""Every policy by name, in the order in which they are asked: what finds most comes first."""
