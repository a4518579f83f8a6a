# SPDX-License-Identifier: Apache-2.0
"""Recovers states that only the lack of one promise makes legal, and judges them.

1. The states of a promise are those of crash/without.py.  One that loses something is recovered
   once more with what hangs on the promise, which makes it a state of the real disk.  Only if that
   loses nothing was the promise needed; nothing more has to be known of it then.  If it loses
   something, too, nothing follows from either.
2. Promises that are alike form a group.  Each group has one state, then as many as it has
   promises.  It begins with a few promises in depth, since what shows in one state of forty is
   not seen by one state of forty promises.  Then every other promise of the group has a quick
   look, then all their other states.
3. In a group promises come in an order of which every beginning is spread over the run.  What has
   shown a loss of one promise is tried first on the next.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from powercut.crash.states import CrashState, StateSpace
from powercut.explore.request import Budget
from powercut.explore.state_judge import StateJudge
from powercut.model.errors import HostError
from powercut.model.verdict import Finding, LsnRange, Verdict
from powercut.recording.consent import require_consent
from powercut.recording.sealed import TrialRecording
from powercut.rig.engine_choice import EngineChoice
from powercut.rig.rig import require_recorded_program
from powercut_extras.audit.promise_worth import Dependence
from powercut_extras.audit.without_promise import Lacking, StatesWithout, with_hanging

IN_DEPTH: Final = 3
"""Promises of a group of which all states come first."""

QUICK: Final = 4
"""States that each other promise of the group has before any of them has more."""

_ANYWAY: Final = "something is lost with all promises kept, too; the run's own verdict says what"

Listener = Callable[[int, int], None]
"""Hears how many states were recovered, and of how many promises."""

Kind = tuple[str, frozenset[str], frozenset[str]]
"""Of a state: its policy, the kinds of writes that are missing, and the kinds that survive."""


@dataclass
class PromiseStates:
    """What the states of one promise have said; `found` is the first that loses something."""

    states: int = 0
    in_part: int = 0
    lost: int = 0
    undecided: int = 0
    lsns: set[LsnRange] = field(default_factory=set)
    message: str = ""
    found: Lacking | None = None


@dataclass
class Looks:
    """What recovered states have said, by promise."""

    engine: str = ""
    seen: dict[int, PromiseStates] = field(default_factory=dict)
    undecided: Counter[str] = field(default_factory=Counter)

    @property
    def states(self) -> int:
        """States recovered and judged, in all."""
        return sum(one.states for one in self.seen.values())


class StateAudit:
    """Looks at states of one recording, by the rules of the module.

    `kind_of` names what a write holds.
    """

    def __init__(
        self,
        recorded: TrialRecording,
        hang: Dependence,
        kind_of: Callable[[int], str],
        *,
        engine: str,
        seed: int,
        listener: Listener,
    ) -> None:
        self._recorded = recorded
        self._hang = hang
        self._kind_of = kind_of
        self._without = StatesWithout(recorded.space, hang, kind_of, seed)
        self._looks = Looks(engine)
        self._listener = listener

    def look(self, groups: Sequence[Sequence[int]], budget: Budget) -> Looks:
        """Looks at groups of promises until the budget is spent, or all states were seen."""
        deadline = None if budget.seconds is None else time.monotonic() + budget.seconds
        record = self._recorded.record
        require_consent(self._recorded.directory, self._recorded.parameters)
        require_recorded_program(self._recorded.parameters, record.versions, record.program_files)
        tours = [self._tour(group) for group in groups]
        # How far each group has come: states for each of its promises.
        turns = [(0.0, number) for number in range(len(groups))]
        with StateJudge(self._recorded, EngineChoice(self._looks.engine)) as states:
            while turns and not self._spent(budget, deadline):
                share, number = heapq.heappop(turns)
                following = next(tours[number], None)
                if following is not None:
                    self._judge(states, *following)
                    heapq.heappush(turns, (share + 1 / len(groups[number]), number))
        return self._looks

    def _spent(self, budget: Budget, deadline: float | None) -> bool:
        if deadline is not None and time.monotonic() > deadline:
            return True
        tried = self._looks.states + self._looks.undecided.total()
        return budget.states is not None and tried >= budget.states

    def _tour(self, group: Sequence[int]) -> Iterator[tuple[int, Lacking]]:
        """The states of a group, by rules 2 and 3; each is judged before the next is asked for."""
        learned: Counter[Kind] = Counter()
        lists: dict[int, Iterator[Lacking]] = {}
        deep, others = group[:IN_DEPTH], group[IN_DEPTH:]
        for promises, most in ((deep, None), (others, QUICK), (others, None)):
            for promise in promises:
                if promise not in lists:
                    lists[promise] = iter(self._list(promise, learned))
                for lacking in islice(lists[promise], most):
                    yield promise, lacking
                    if self._looks.seen[promise].lost:
                        learned[self._kind(lacking)] += 1
                        lists[promise] = iter(())
                        break

    def _list(self, promise: int, learned: Counter[Kind]) -> list[Lacking]:
        """The states without `promise`, those first that are like what has shown a loss."""
        states = self._without.states(promise)
        return sorted(states, key=lambda lacking: -learned[self._kind(lacking)])

    def _kind(self, lacking: Lacking) -> Kind:
        writes = lacking.missing, lacking.state.survivors
        missing, surviving = (frozenset(map(self._kind_of, part)) for part in writes)
        return lacking.state.policy, missing, surviving

    def _judge(self, states: StateJudge, promise: int, lacking: Lacking) -> None:
        """Recovers a state without `promise`, and keeps what it says."""
        seen = self._looks.seen.setdefault(promise, PromiseStates())
        space = self._without.space(promise)
        losses = self._losses(states, space, lacking.state)
        # With what hangs on it the same state is legal on the real disk: if that loses
        # something, too, the promise is not what was missing.
        whole = with_hanging(self._hang, promise, lacking.state)
        anyway = self._losses(states, space, whole) if losses else []
        if anyway:
            self._looks.undecided[_ANYWAY] += 1
        if losses is None or anyway is None or anyway:
            seen.undecided += 1
            return
        seen.states += 1
        seen.in_part += lacking.in_part
        if losses:
            seen.lost += 1
            seen.found = lacking
            seen.message = losses[0].message
            seen.lsns.update(*(finding.lsns for finding in losses))
        self._listener(self._looks.states, len(self._looks.seen))

    def _losses(
        self, states: StateJudge, space: StateSpace, state: CrashState
    ) -> list[Finding] | None:
        """What recovery of `state` loses; None if nobody can say."""
        try:
            findings = states.judge(state, space, received=False).findings
        except HostError as error:
            self._looks.undecided[str(error)] += 1
            return None
        losses = [finding for finding in findings if finding.verdict is Verdict.LOSSY]
        if findings and not losses:
            self._looks.undecided[findings[0].message] += 1
            return None
        return losses
