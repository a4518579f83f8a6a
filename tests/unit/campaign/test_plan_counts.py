# SPDX-License-Identifier: Apache-2.0
"""What a plan says that a run will do is what it does, if all turns out as expected."""

from __future__ import annotations

from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from powercut.campaign.confidence import Aim
from powercut.campaign.files import RecordedFiles
from powercut.campaign.resume import SESSIONS, new_session
from powercut.campaign.run import Run, RunOptions
from powercut.campaign.selection import Selection, trials_of
from powercut.explore.request import Budget, ExploreProgress
from powercut.model.events import Notice, RunEvent, RunStarted, TrialPhase
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.paths import SCENARIOS
from powercut.rig.rig import Rig
from powercut.scenario.load import load_scenario
from powercut.store.files_tried import FilesOrder
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


def looked(tmp_path: Path, paces: list[ExploreProgress], *, tries: bool = True) -> list[RunEvent]:
    """What a run says of states that are looked at with these paces."""
    scenario = load_scenario(SCENARIOS / "first-light.yaml")
    plan = Selection().plan(scenario, 7)
    files = RecordedFiles(None, FilesOrder()) if tries else None
    told: list[RunEvent] = []
    options = RunOptions(on_event=told.append, files=files)
    directory = ResultDir.create(tmp_path, plan.scenario, 7)
    run = Run(Rig(tmp_path), scenario, plan, directory, options, None, {})
    hear = run._looking("sqlite", 1)
    for pace in paces:
        hear(pace)
    run.progress.remove()
    return told


def test_what_takes_long_is_said_once_as_soon_as_the_pace_is_known(tmp_path):
    budget = Budget(320, 90.0)
    first, *paces = [ExploreProgress(n, 0, n * 0.25, budget, "") for n in (1, 8, 40, 300)]
    notice, *phases = looked(tmp_path, [first, *paces])
    assert notice == Notice(
        "sqlite: looking at crash states takes about 78 s; --budget 32 for the fewest"
    )
    assert [one.so_far for one in phases if isinstance(one, TrialPhase)] == [
        "8 of 320, about 78 s left",
        "40 of 320, about 70 s left",
        "300 of 320, about 5 s left",
    ]


def test_what_is_quick_and_a_campaign_say_no_time_at_first(tmp_path):
    quick = ExploreProgress(8, 0, 0.1, Budget(320, 90.0), "")
    slow = ExploreProgress(8, 0, 8.0, Budget(320), "")
    for name, pace, tries in (("quick", quick, True), ("slow", slow, False)):
        told = looked(tmp_path / name, [pace], tries=tries)
        assert [type(one) for one in told] == [TrialPhase]


def test_who_interrupts_ends_what_looks_at_states(tmp_path):
    scenario = load_scenario(SCENARIOS / "first-light.yaml")
    plan = Selection().plan(scenario, 7)
    directory = ResultDir.create(tmp_path, plan.scenario, 7)
    run = Run(Rig(tmp_path), scenario, plan, directory, RunOptions(), None, {})
    run.interrupted.set()
    with pytest.raises(CancelledError):
        run._looking("files")(None)
    run.progress.remove()


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize(
    "selection", [Selection(), Selection(trials=3), Selection(aim=Aim(0.9, 0.5))]
)
def test_a_plan_counts_what_a_run_makes(tmp_path, name, selection):
    planned, announced, made = play(SCENARIOS / name, tmp_path, selection)
    assert planned == announced == made
