# SPDX-License-Identifier: Apache-2.0
"""The crash states that a scenario asks for, recovered for the verdict on a trial.

By default `AUTO_STATES` states of a recording are recovered, after each of which the workload
continues, or `AUTO_STATES_OF_PROGRAM` of a program.  What they come to joins the verdict in
powercut.verdict.states.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from powercut.crash.explore import InstantKind
from powercut.crash.legality import why_illegal
from powercut.crash.states import Model
from powercut.explore.explorer import explore
from powercut.explore.file_maps import map_program
from powercut.explore.request import Budget, ExploreProgress, ExploreRequest
from powercut.model.errors import DamagedRecording, PowercutError
from powercut.model.machine import ImageFormat
from powercut.recording import state_ref
from powercut.recording.sealed import SealedTrial
from powercut.rig import commands
from powercut.rig.engine_shelf import EngineShelf
from powercut.scenario.settings import Parameters
from powercut.store.exploration import ExploreResult, read_exploration
from powercut.workload.port import AcksByLines, Continues
from powercut.workload.table import workload_of

AUTO_STATES: Final = 64
"""States of one recording that budget `auto` recovers."""

AUTO_STATES_OF_PROGRAM: Final = 320
"""The same of a program, whose bytes nothing recognises: in a run of 500 operations a fault in one
of 100 is then met with a probability of about 0.95.  Of image formats, which guests recover, two
a second, it is `AUTO_STATES`."""

AUTO_AFTER: Final = 16
"""Records by which the workload then goes on after each recovery."""

_PER_POLICY: Final = 64
"""States that one policy draws at one instant at most, where a recording has few."""


@dataclass(frozen=True)
class RecoveredStates:
    """Recovers the crash states that settings ask for; what a verdict needs (CrashStates).

    `again` repeats an earlier exploration and changes nothing on disk.
    """

    shelf: EngineShelf | None = None
    again: bool = False
    jobs: int = 1
    on_event: Callable[[ExploreProgress], None] = lambda _: None

    def recovered(self, sealed: SealedTrial, *, decided: bool) -> ExploreResult | None:
        """The exploration that its settings ask for, made; None if they ask for none."""
        record, trial = sealed.record, sealed.directory
        wanted = wanted_by(record.parameters, record.trial.seed, jobs=self.jobs, convicted=decided)
        if wanted is None:
            return None
        if self.again:
            wanted = as_before(sealed, wanted)
        seen = explore(
            sealed, wanted, keep=not self.again, on_event=self.on_event, shelf=self.shelf
        )
        earlier = read_exploration(trial) if self.again else None
        if earlier is None:
            return seen
        return seen.model_copy(update={"seconds_in_all": earlier.seconds_in_all})

    def map_cut(self, sealed: SealedTrial) -> None:
        """Keeps where files lay at the cut; without, the story of a loss names fewer writes."""
        if not self.again:
            with suppress(PowercutError):
                map_program(sealed.opened, shelf=self.shelf)


@dataclass(frozen=True)
class StatesExplored:
    """Crash states that have been explored, for a verdict (CrashStates)."""

    seen: ExploreResult

    def recovered(self, sealed: SealedTrial, *, decided: bool) -> ExploreResult:
        """What was seen, whatever the recording alone says."""
        del sealed, decided
        return self.seen

    def map_cut(self, sealed: SealedTrial) -> None:
        """Nothing: the exploration has mapped its losses."""
        del sealed


def wanted_by(
    parameters: Parameters, seed: int, *, jobs: int = 1, convicted: bool = False
) -> ExploreRequest | None:
    """What the scenario asks for; None if nothing.

    `convicted` says that the cut itself has lost something: `auto` then spends nothing.
    """
    settings = parameters.explore
    auto = settings.budget == "auto"
    if settings.budget == "off" or (auto and convicted):
        return None
    grows = parameters.machine.format is not ImageFormat.RAW
    workload = workload_of(parameters)
    # Starting a program twice for a state takes several times what its check does: by request.
    continues = isinstance(workload, Continues) and not isinstance(workload, AcksByLines)
    goes_on = continues and (grows or (auto and not commands.is_bare(parameters)))
    many = isinstance(workload, AcksByLines) and not grows
    states = AUTO_STATES_OF_PROGRAM if many else AUTO_STATES
    budget = Budget(states) if auto else Budget.parse(settings.budget)
    if (auto or grows) and not settings.depth:
        # All of them of the recording itself: guests, which formats need, record no recoveries.
        budget = replace(budget, first=budget.states)
    return ExploreRequest(
        model=Model(settings.model.value),
        policies=tuple(policy.value for policy in settings.policies),
        at=tuple(InstantKind),
        budget=budget,
        engine=settings.engine.value,
        jobs=jobs,
        seed=seed,
        after=settings.after or (AUTO_AFTER if goes_on else 0),
        depth=settings.depth,
        per_policy=_PER_POLICY,
    )


def as_before(sealed: SealedTrial, wanted: ExploreRequest) -> ExploreRequest:
    """`wanted`, to be done once more: what was found must be found again.

    As many states are drawn as it had time for, and those that it named are looked at besides,
    unless they were drawn.  Second cuts are not named: what they rest on is not sealed.
    Raises DamagedRecording for a named state that is not legal.
    """
    trial = sealed.directory
    earlier = read_exploration(trial)
    if earlier is None:
        return wanted
    space = sealed.opened.space
    named = []
    for name in dict.fromkeys(one.id for found in earlier.findings for one in found.examples):
        if not name:
            continue
        state = state_ref.load(trial, name)
        if state.again is not None:
            continue
        problems = why_illegal(space, state)
        if problems:
            raise DamagedRecording(f"{trial.path}: state {name} is not legal: {problems[0]}")
        named.append(state)
    budget = wanted.budget
    if budget.seconds is not None:
        coverage = earlier.coverage
        states = max(1, coverage.distinct + coverage.recovery_states)
        if budget.states is None or states < budget.states:
            budget = Budget(states=states, first=max(1, coverage.distinct))
        budget = replace(budget, seconds=None)
    return replace(wanted, named=tuple(named), budget=budget)
