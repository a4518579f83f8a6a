# SPDX-License-Identifier: Apache-2.0
"""A second cut: crash states of a recovery, which are states like any others.

A state's recovery is put on record.  Every state that a cut could have left of that
recovery is legal for the disk that the recovery began with, and must give back the records
that were required at the first cut.  Of the recoveries of those states some are put on
record again, to the depth that was asked for.

What is required, and when:

1. Up to the end of a recovery what was required of its state at the first cut; a recovery
   promises nothing.
2. If the workload went on after recovery, everything that it acknowledged is required, too,
   from the instant at which it had ended.  Before that it may be there.

Recoveries cost more than states: they are drawn from the states that were checked, by a seed,
and few states of each: see `states_of` for disks, powercut.explore.folder for folders.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, Protocol, TypeVar

from powercut.crash.explore import InstantKind, events, sample
from powercut.crash.order import Selection
from powercut.crash.shapes import POLICY
from powercut.crash.states import Again, CrashState, Model, StateSpace
from powercut.explore.recovery_timeline import instant_after
from powercut.explore.state_images import StateImages
from powercut.explore.work import Deepen, Recoveries, StateJudgement
from powercut.model.contract import CutKind
from powercut.model.timeline import Timeline
from powercut.model.verdict import Finding
from powercut.recording.sealed import under_cut
from powercut.recover.port import ImageWrite
from powercut.recover.state_image import laid_over
from powercut.workload.port import NOTHING_LATER, LaterClaims

PER_INSTANT: Final = 4
"""States that are drawn at one instant of a recovery, on average."""

DEEPER: Final = 2
"""Of the states of one recovery, so many are recovered on record, if that is deep enough."""


@dataclass(frozen=True)
class Recovered:
    """A recovery on record.

    `writes` make the disk that it began with; `later` is what the workload claimed when it went on,
    and `doubts` what was found then: a program's claims are to be believed only if it is nothing.
    """

    timeline: Timeline
    writes: Sequence[ImageWrite]
    later: LaterClaims = NOTHING_LATER
    doubts: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class SecondState:
    """A disk that a cut during a recovery may have left.

    `later` is what was claimed besides at the first cut; `what` says where this one was, for a
    person.
    """

    state: CrashState
    writes: Sequence[ImageWrite]
    fresh: tuple[ImageWrite, ...]
    later: LaterClaims
    what: str


class OnRecord(Protocol):
    """A recovery on record."""

    @property
    def doubts(self) -> tuple[Finding, ...]:
        """Why nothing follows from it; nothing if something does."""


class AfterCut(Protocol):
    """What a cut during a recovery may have left."""

    @property
    def later(self) -> LaterClaims:
        """What was claimed besides at the first cut."""


Record = TypeVar("Record", bound=OnRecord)
Second = TypeVar("Second", bound=AfterCut)


class CutsAgain(Protocol[Record, Second]):
    """Puts recoveries on record, and judges what cuts during them may have left."""

    def record(self, first: CrashState, second: Second | None) -> Record | None:
        """The recovery of `second`, a state of the recovery of `first`, or of `first` itself; None
        if there is no record of it, as where its kernel died.  Raises HostError.
        """

    def states_of(
        self, record: Record, limit: int, seed: str, drawn: Callable[[StateCount], None]
    ) -> Iterator[Second]:
        """Up to `limit` states of a recovery."""

    def judge_second(self, first: CrashState, second: Second) -> StateJudgement:
        """What came of one, against what was required of `first`."""

    def beneath(self, first: CrashState, second: Second) -> CrashState:
        """`second` as what a further recovery begins with."""


class SecondCuts(Generic[Record, Second]):
    """What one task asks for: what was `judged`, and a `count` of it."""

    def __init__(
        self, medium: CutsAgain[Record, Second], task: Deepen, *, deeper: int | None = None
    ) -> None:
        self.judged: list[StateJudgement] = []
        self.count = Recoveries()
        self._medium = medium
        self._task = task
        self._deeper = DEEPER if deeper is None else deeper

    def follow(self, first: CrashState) -> None:
        """Cuts the recovery of `first`.  Raises HostError."""
        record = self._medium.record(first, None)
        if record is None:
            self.count.unrecorded = 1
        else:
            self.cut(first, record)

    def cut(self, first: CrashState, record: Record) -> None:
        """Cuts the recovery of `first` that is on record, and those of what is left, if wanted."""
        self._cut(first, record, self._task.limit, 1)

    def _cut(self, first: CrashState, record: Record, allowance: int, level: int) -> None:
        """Up to `allowance` states: of one recovery, and of recoveries of those if wanted."""
        if record.doubts:  # what was promised in it cannot be believed
            self.judged.append(StateJudgement(record.doubts, again=first, policy="recovery"))
            return
        medium, task, count = self._medium, self._task, self.count
        count.recorded += 1
        count.deepest = max(count.deepest, level)
        limit = allowance if level == task.depth else max(1, allowance // 2)
        deeper_limit = max(1, (allowance - limit) // self._deeper)
        seed = f"{task.seed}/{level}/{len(self.judged)}"
        draw = random.Random(seed)
        on_record = set(draw.sample(range(limit), min(limit, self._deeper)))

        def drawn(how: StateCount) -> None:
            count.legal_log2.append(how.legal_log2)

        for number, second in enumerate(medium.states_of(record, limit, seed, drawn)):
            self.judged.append(medium.judge_second(first, second))
            count.states += 1
            count.ended += bool(second.later.promised)
            if level < task.depth and number in on_record:
                deeper = medium.record(first, second)
                if deeper is None:
                    count.unrecorded += 1
                else:
                    self._cut(medium.beneath(first, second), deeper, deeper_limit, level + 1)


@dataclass(frozen=True)
class StateCount:
    """How many states a recovery has (binary logarithm, at the instants looked at)."""

    legal_log2: float
    instants: int
    instants_all: int


def states_of(
    recovered: Recovered,
    kind: CutKind,
    *,
    policies: Sequence[str],
    model: Model,
    seed: int | str,
    limit: int,
    drawn: Callable[[StateCount], None] = lambda _: None,
) -> Iterator[SecondState]:
    """Up to `limit` distinct states of a recovery, on which a cut of `kind` came.

    If the workload went on, the first is the one that a second cut at its end leaves, of
    nothing but what is durable then.
    """
    space = StateSpace(under_cut(recovered.timeline, kind))
    ended = instant_after(recovered.timeline)
    instants = events(space, list(InstantKind))
    images = StateImages(space)
    made = 0
    if ended is not None and recovered.later.promised:
        yield _second(space, images, recovered, CrashState(ended, (), policy="durable-only"), ended)
        made = 1
    if made >= limit:
        drawn(StateCount(0.0, 1, len(instants)))
        return
    few = max(1, (limit - made) // PER_INSTANT)
    number = random.Random(f"{seed}/instants").getrandbits(32)
    chosen = sample(instants, few, number)
    names = tuple(name for name in policies if name != POLICY) or tuple(policies)
    selection = Selection(names, model, number, limit=limit - made)
    exploration = selection.of(space, chosen)
    for state in exploration:
        yield _second(space, images, recovered, state, ended)
    coverage = exploration.coverage()
    drawn(StateCount(coverage.legal_log2, coverage.instants, coverage.instants_all))


def _second(
    space: StateSpace,
    images: StateImages,
    recovered: Recovered,
    state: CrashState,
    ended: int | None,
) -> SecondState:
    fresh = tuple(images.writes(state))
    done = ended is not None and state.instant >= ended and bool(recovered.later.promised)
    issued = int(space.sets.issued(state.instant).sum())
    volatile = len(space.volatile(state.instant))
    where = "once the workload had gone on" if done else "during the recovery of that state"
    return SecondState(
        state=state,
        writes=laid_over(recovered.writes, fresh),
        fresh=fresh,
        later=recovered.later if done else replace(recovered.later, promised=()),
        what=(
            f"a second cut, {where}: after {issued} of {int(space.sets.is_write.sum())} writes, "
            f"{len(state.survivors)} of {volatile} volatile ones kept ({state.policy})"
        ),
    )


def cut_again(first: CrashState, second: SecondState) -> CrashState:
    """`first` and what its recovery had left on the disk: a state that can be kept."""
    before = first.again or Again(())
    added = tuple(
        (write.offset, bytes(write.length) if write.data is None else write.data.tobytes())
        for write in second.fresh
    )
    later = LaterClaims(before.promised, before.attempted, before.tried) + second.later
    again = Again((*before.overlay, *added), later.promised, later.attempted, later.tried)
    return replace(first, again=again, policy=f"recovery/{second.state.policy}")
