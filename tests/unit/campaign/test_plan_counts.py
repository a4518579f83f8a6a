# SPDX-License-Identifier: Apache-2.0
"""What a plan says that a run will do is what it does, if all turns out as expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from powercut.campaign.confidence import Aim
from powercut.campaign.resume import SESSIONS, new_session
from powercut.campaign.run import Run, RunOptions
from powercut.campaign.selection import Selection, trials_of
from powercut.model.events import RunStarted
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.paths import SCENARIOS
from powercut.rig.rig import Rig
from powercut.scenario.load import load_scenario
from powercut.store.layout import ResultDir
from powercut.store.results import wanted_verdict
from powercut.store.trial_result import TrialResult

LOST = Finding(FindingKind.LOST, Verdict.LOSSY, "gone", (LsnRange(1, 10),))

EXAMPLES = [
    "first-light.yaml",
    "certify/quick/quick-cache-and-bus.yaml",
    "certify/quick/sqlserver-core.yaml",
    "certify/quick/virtualbox-ide.yaml",
    "lying/one-lie.yaml",
    "matrix/unsafe-cache.yaml",
]


class AsExpected(Run):
    """A run whose trials come to what their cells, or their controls, expect; it makes none."""

    made: list[str]

    def _trial(self, name, parameters, trial, control=None):
        self.made.append(name)
        expected = wanted_verdict(parameters.expect) if control is None else control.expected
        return TrialResult.judged(
            trial,
            verdict=expected,
            acked=10,
            attempted=11,
            findings=[LOST] if expected is Verdict.LOSSY else [],
        )


def play(path: Path, results: Path, selection: Selection) -> tuple[int, int, int]:
    """Power cuts by the plan, as announced, and as made."""
    scenario = load_scenario(path)
    plan = selection.plan(scenario, 7)
    told: list[int] = []

    def heard(event: object) -> None:
        if isinstance(event, RunStarted):
            told.append(event.trials)

    directory = ResultDir.create(results, plan.scenario, 7)
    environment = {SESSIONS: [new_session()], "started": "2026-11-22T00:00:00+00:00"}
    options = RunOptions(on_event=heard)
    run = AsExpected(Rig(results), scenario, plan, directory, options, None, environment)
    run.made = []
    assert run.run().as_expected
    (announced,) = told
    return trials_of(plan), announced, len(run.made)


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize(
    "selection", [Selection(), Selection(trials=3), Selection(aim=Aim(0.9, 0.5))]
)
def test_a_plan_counts_what_a_run_makes(tmp_path, name, selection):
    planned, announced, made = play(SCENARIOS / name, tmp_path, selection)
    assert planned == announced == made
