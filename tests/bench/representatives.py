# SPDX-License-Identifier: Apache-2.0
"""How many crash states it takes until a fault is found, by what selects them.

Each fault of bench.known_bugs is recorded once.  Each way of selecting draws distinct
states until one loses something, for several seeds; the median counts.  A way that comes to its end
without having found it never will.

`uniform` is plain sampling: an instant at random, and each atomic unit that was not durable there
or not, by a fair coin.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from rich.console import Console
from rich.table import Table

from bench.figure import Figure
from bench.known_bugs.case import Case, Fault
from bench.known_bugs.table import FAULTS
from powercut.crash.explore import Exploration, InstantKind, events
from powercut.crash.kinds import Names
from powercut.crash.order import Selection
from powercut.crash.policies import POLICIES
from powercut.crash.representatives import drawn_by_coins
from powercut.crash.shapes import POLICY
from powercut.crash.states import CrashState, StateSpace
from powercut.model.errors import HostError

SEEDS: Final = 5
STATES_MAX: Final = 1000
"""States after which a fault counts as not found."""

UNIFORM: Final = "uniform"
WAYS: Final = (UNIFORM, *POLICIES, POLICY)
"""Everything that is compared: `representatives` is the order of every command."""

_PER_POLICY: Final = 1024
_HONEST_STATES: Final = 100


@dataclass(frozen=True)
class Search:
    """States until a fault was found, by each way: the median; infinite if it was not found."""

    fault: Fault
    states: dict[str, float]


class _Uniform(Exploration):
    """Without end, or until nothing new has come for long."""

    def __iter__(self) -> Iterator[CrashState]:
        draw = random.Random(f"{self.seed}/{UNIFORM}")
        instants = self.instants.tolist()
        missed = 0
        while instants and missed < STATES_MAX:
            state = drawn_by_coins(self.space, draw.choice(instants), draw, policy=UNIFORM)
            if self._take(state):
                missed = 0
                yield state
            else:
                missed += 1


def states_of(case: Case, way: str, seed: int) -> Iterator[CrashState]:
    """Distinct states of a small program, in the order in which `way` selects them."""
    return selected(case.space, case.begin_ns, way, seed)


def selected(
    space: StateSpace, begin_ns: int, way: str, seed: int, names: Names | None = None
) -> Iterator[CrashState]:
    """Distinct states after `begin_ns`, in the order in which `way` selects them.  `names` are what
    a file system calls places, for representatives.
    """
    instants = events(space, list(InstantKind))
    instants = instants[instants > begin_ns]
    if way == UNIFORM:
        return iter(_Uniform(space, instants, (), seed=seed))
    selection = Selection((way,), seed=seed, per_policy=_PER_POLICY, limit=STATES_MAX, names=names)
    return iter(map(space.legal, selection.of(space, instants)))


def bench_representatives() -> list[Figure]:
    """States until each fault is found, by representatives against uniform sampling; prints the
    whole table besides.

    Raises HostError if an honest twin loses something.
    """
    searches = []
    for fault in FAULTS:
        _check_honest(fault)
        searches.append(search(fault))
    Console().print(_table(searches))
    figures = [
        Figure(
            f"{one.fault.name}, states until found",
            one.states[POLICY],
            one.states[UNIFORM],
            UNIFORM,
            "states",
        )
        for one in searches
        if math.isfinite(one.states[POLICY]) and math.isfinite(one.states[UNIFORM])
    ]
    totals = {way: sum(min(one.states[way], STATES_MAX) for one in searches) for way in WAYS}
    best = min((way for way in WAYS if way != POLICY), key=lambda way: totals[way])
    for other in (UNIFORM, best):
        name = f"all {len(searches)} faults, states until found"
        figures.append(Figure(name, totals[POLICY], totals[other], other, "states"))
    return figures


def _check_honest(fault: Fault) -> None:
    for way in (POLICY, UNIFORM):
        for state in islice(states_of(fault.honest, way, 1), _HONEST_STATES):
            if fault.honest.loses(state):
                raise HostError(f"{fault.name}: the honest twin loses something ({way}: {state})")


def _table(searches: Sequence[Search]) -> Table:
    """A line each: the fault, then the states that each way took; `-` where it found nothing."""
    table = Table(title=f"states until found, medians of {SEEDS} seeds; at most {STATES_MAX}")
    for column in ("fault", *WAYS):
        table.add_column(column, justify="left" if column == "fault" else "right", no_wrap=True)
    for one in searches:
        told = ["-" if math.isinf(one.states[way]) else f"{one.states[way]:.0f}" for way in WAYS]
        table.add_row(one.fault.name, *told)
    missed = [sum(math.isinf(one.states[way]) for one in searches) for way in WAYS]
    table.add_section()
    table.add_row("not found", *map(str, missed))
    return table


def search(fault: Fault, ways: tuple[str, ...] = WAYS, seeds: int = SEEDS) -> Search:
    """Looks for a fault in all ways."""
    case = fault.faulty
    known: dict[CrashState, bool] = {}
    return Search(
        fault,
        {
            way: statistics.median_low([_found(case, way, seed, known) for seed in range(seeds)])
            for way in ways
        },
    )


def _found(case: Case, way: str, seed: int, known: dict[CrashState, bool]) -> float:
    states = islice(states_of(case, way, seed), STATES_MAX)
    for count, state in enumerate(states, 1):
        key = CrashState(state.instant, state.survivors, state.torn, state.moves)
        if key not in known:
            known[key] = case.loses(state)
        if known[key]:
            return count
    return math.inf
