# SPDX-License-Identifier: Apache-2.0
"""Exploration as a part of a trial: what its crash states say joins its verdict.

A live cut samples one state.  If the scenario says so (`explore.budget`), others of the
same recording are checked after it, and what they lose convicts the trial as well,
however lucky its cut was.
"""

from __future__ import annotations

from collections.abc import Callable

from powercut.crash.explore import InstantKind
from powercut.crash.states import Model
from powercut.model.errors import PowercutError
from powercut.model.verdict import Finding, FindingKind, Verdict, lsn_ranges
from powercut.run.explore import explore
from powercut.run.explore_wanted import Budget, ExploreProgress, Wanted
from powercut.scenario.settings import Parameters
from powercut.store.exploration import ExplorationFinding, ExploreResult
from powercut.store.layout import TrialDir
from powercut.store.trial_result import FindingRecord, TrialResult, lost_lsns


def wanted_by(parameters: Parameters, seed: int, *, jobs: int) -> Wanted | None:
    """What the scenario asks for; None if nothing."""
    settings = parameters.explore
    if settings.budget == "none":
        return None
    return Wanted(
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


def explored(
    trial: TrialDir,
    result: TrialResult,
    *,
    jobs: int = 1,
    on_event: Callable[[ExploreProgress], None] = lambda _: None,
) -> TrialResult:
    """`result` with what the crash states of its recording say, if its scenario asks for it.

    An exploration that is not possible makes the trial INCONCLUSIVE at best.
    """
    record = trial.read_record()
    wanted = wanted_by(record.parameters, record.trial.seed, jobs=jobs)
    if wanted is None or record.control is not None:
        return result
    try:
        findings = findings_of(explore(trial, wanted, on_event=on_event))
    except PowercutError as error:
        findings = [
            Finding(
                FindingKind.INCOMPLETE,
                Verdict.INCONCLUSIVE,
                f"its crash states could not be explored: {error}",
            )
        ]
    every = [*(record.finding() for record in result.findings), *findings]
    lost = lost_lsns(every)
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
    others = f"; {more:,} other states of {result.coverage.distinct:,} checked are like it"
    return Finding(
        found.kind,
        found.verdict,
        f"{where}{first.message}{others if more > 0 else ''}",
        lsn_ranges(lsn for span in found.lsns for lsn in range(span.first, span.last + 1)),
        {
            "found_by": "exploration",
            "engine": result.engine,
            "state": first.id,
            "policy": first.policy,
            "states": found.states,
            "states_checked": result.coverage.distinct,
            "confirmed": first.confirmed,
        },
    )
