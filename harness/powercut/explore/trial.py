# SPDX-License-Identifier: Apache-2.0
"""Exploration as a part of a trial: what its crash states say joins its verdict.

A live cut samples one state.  If the scenario says so (`explore.budget`), others of the
same recording are checked after it, and what they lose convicts the trial as well,
however lucky its cut was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from powercut.crash.explore import InstantKind
from powercut.crash.states import Model
from powercut.explore.explorer import explore
from powercut.explore.request import Budget, ExploreProgress, ExploreRequest
from powercut.model.errors import DamagedRecording, PowercutError
from powercut.model.verdict import Finding, FindingKind, LsnRange, Origin, Verdict, lsn_ranges
from powercut.recording import state_ref
from powercut.recording.recorded import open_recorded
from powercut.scenario.settings import Parameters
from powercut.store.exploration import ExplorationFinding, ExploreResult, read_exploration
from powercut.store.layout import TrialDir
from powercut.store.trial_result import FindingRecord, TrialResult, lost_lsns


def wanted_by(parameters: Parameters, seed: int, *, jobs: int) -> ExploreRequest | None:
    """What the scenario asks for; None if nothing."""
    settings = parameters.explore
    if settings.budget == "none":
        return None
    return ExploreRequest(
        model=Model(settings.model.value),
        policies=tuple(policy.value for policy in settings.policies),
        at=tuple(InstantKind),
        budget=Budget.parse(settings.budget),
        engine=settings.engine.value,
        jobs=jobs,
        seed=seed,
        after=settings.after,
        depth=settings.depth,
    )


def as_before(trial: TrialDir, wanted: ExploreRequest) -> ExploreRequest:
    """`wanted`, to be done once more: what was found must be found again.

    The states that the earlier exploration named are looked at first; besides them as many
    are drawn as it had time for.  Second cuts are not named: what they rest on is not sealed.
    Raises DamagedRecording for a named state that is not legal.
    """
    earlier = read_exploration(trial)
    if earlier is None:
        return wanted
    space = open_recorded(trial).space
    named = []
    for name in dict.fromkeys(one.id for found in earlier.findings for one in found.examples):
        if not name:
            continue
        state = state_ref.load(trial, name)
        if state.again is not None:
            continue
        problems = space.problems(state)
        if problems:
            raise DamagedRecording(f"{trial.path}: state {name} is not legal: {problems[0]}")
        named.append(state)
    budget = wanted.budget
    if budget.seconds is not None:
        coverage = earlier.coverage
        states = max(1, coverage.distinct + coverage.recovery_states)
        budget = Budget(states=states, first=max(1, coverage.distinct))
    return replace(wanted, named=tuple(named), budget=budget)


def explored(
    trial: TrialDir,
    result: TrialResult,
    *,
    again: bool = False,
    jobs: int = 1,
    on_event: Callable[[ExploreProgress], None] = lambda _: None,
) -> TrialResult:
    """`result` with what the crash states of its recording say, if its scenario asks for it.

    An exploration that is not possible makes the trial INCONCLUSIVE at best.  `again`
    repeats an earlier one and changes nothing on disk.
    """
    record = trial.read_record()
    wanted = wanted_by(record.parameters, record.trial.seed, jobs=jobs)
    if wanted is None or record.control is not None:
        return result
    try:
        if again:
            wanted = as_before(trial, wanted)
        findings = findings_of(explore(trial, wanted, keep=not again, on_event=on_event))
    except PowercutError as error:
        findings = [
            Finding(
                FindingKind.INCOMPLETE,
                Verdict.INCONCLUSIVE,
                f"its crash states could not be explored: {error}",
            )
        ]
    every = [*(record.finding() for record in result.findings), *findings]
    # What a workload was promised that went on after a recovery is no record of this trial.
    acked = result.commits_acked
    lost = tuple(
        LsnRange(span.first, min(span.last, acked))
        for span in lost_lsns(every)
        if span.first <= acked
    )
    return result.model_copy(
        update={
            "findings": tuple(FindingRecord.of(finding) for finding in every),
            "verdict": max(
                result.verdict, *(finding.verdict for finding in findings), Verdict.SAFE
            ),
            "commits_lost": sum(len(span) for span in lost),
            "lost_lsns": lost,
        }
    )


def findings_of(result: ExploreResult) -> list[Finding]:
    """What an exploration found, one finding for each kind."""
    return [_finding(result, found) for found in result.findings]


def _finding(result: ExploreResult, found: ExplorationFinding) -> Finding:
    first = found.examples[0]
    where = f"in crash state {first.id} ({first.policy}), " if first.id else ""
    more = found.states - 1
    checked = result.coverage.distinct + result.coverage.recovery_states
    others = f"; {more:,} other states of {checked:,} checked are like it"
    return Finding(
        found.kind,
        found.verdict,
        f"{where}{first.message}{others if more > 0 else ''}",
        lsn_ranges(lsn for span in found.lsns for lsn in span),
        {
            "engine": result.engine,
            "state": first.id,
            "policy": first.policy,
            "states": found.states,
            "states_checked": checked,
            "confirmed": first.confirmed,
        },
        Origin.EXPLORATION,
    )
