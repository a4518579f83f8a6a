# SPDX-License-Identifier: Apache-2.0
"""How many cuts, how long they take, and that no command forgets what was asked for."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import Path

import pytest

from powercut.campaign.confidence import (
    Aim,
    in_words,
    past_seconds,
    planned_for,
    seconds_of,
    total_seconds,
)
from powercut.model.verdict import Verdict
from powercut.paths import SCENARIOS
from powercut.scenario.load import expand, load_scenario
from powercut.store.layout import ResultDir
from powercut.store.results import CellResult, RunResult
from powercut.store.trial_result import TrialResult
from powercut.trial.controls import same_run

SCENARIO = load_scenario(SCENARIOS / "first-light.yaml")
PLAN = expand(SCENARIO, seed=5)


def judged(seconds: float, number: int = 0) -> TrialResult:
    return TrialResult.judged(
        PLAN.cells[0].trials[number],
        verdict=Verdict.SAFE,
        acked=1,
        attempted=1,
        findings=[],
        timings_s={"boot": seconds / 4, "recover": seconds * 3 / 4},
    )


def store(results: Path, minute: int, seconds: float) -> ResultDir:
    """A run of the first cell only, whose trial took so long."""
    moment = datetime(2026, 11, 21, 10, minute, tzinfo=UTC)
    directory = ResultDir.create(results, PLAN.scenario, 1, now=moment)
    cell = CellResult.of(PLAN.scenario, PLAN.cells[0], [judged(seconds)], verdict=Verdict.SAFE)
    directory.write_verdict(
        RunResult.of(
            powercut="0",
            scenario=PLAN.scenario,
            description="",
            scenario_file="",
            seed=1,
            started="",
            seconds=1,
            cells=[cell],
        )
    )
    return directory


def test_only_cells_that_should_be_safe_are_cut_more_often():
    plan = planned_for(PLAN, Aim(0.999))
    assert [(cell.name, len(cell.trials)) for cell in plan.cells] == [
        ("honest", 688),
        ("lying", 1),
        ("no-sync", 1),
    ]
    # The first cuts are those that the scenario makes anyway: seeds do not move.
    assert plan.cells[0].trials[0] == PLAN.cells[0].trials[0]
    assert len({trial.seed for trial in plan.cells[0].trials}) == 688


@pytest.mark.parametrize("confidence", [0.95, 0.999, 0.9999999, 1 / 3])
def test_the_options_give_the_same_aim_again(confidence):
    aim = Aim(confidence, 1e-5)
    _, told, _, at_most = aim.options
    assert Aim(float(told), float(at_most)) == aim


def test_an_aim_says_what_it_means():
    assert str(Aim(0.999)) == (
        "688 cuts without a loss make it 99.9 % sure that fewer than 1 % of such cuts lose a record"
    )


def test_the_latest_run_tells_how_long_a_trial_takes(tmp_path):
    key = same_run(PLAN.cells[0].parameters)
    assert past_seconds(tmp_path, PLAN) == {}
    store(tmp_path, 1, 8.0)
    store(tmp_path, 2, 2.0)
    assert past_seconds(tmp_path, PLAN) == {key: pytest.approx(2.0)}
    damaged = store(tmp_path, 3, 1.0)
    (damaged.path / "verdict.json").write_text("{}")
    assert past_seconds(tmp_path, PLAN) == {key: pytest.approx(2.0)}


def test_what_is_not_known_takes_as_long_as_the_slowest():
    plan = planned_for(PLAN, Aim(0.95, 0.05))
    assert total_seconds(plan, {}, 1) is None
    known = {same_run(plan.cells[0].parameters): 2.0}
    assert total_seconds(plan, known, 1) == pytest.approx(59 * 2.0 + 2 * 2.0)
    known |= {same_run(cell.parameters): 0.5 for cell in plan.cells[1:]}
    assert total_seconds(plan, known, 1) == pytest.approx(59 * 2.0 + 2 * 0.5)


def test_more_jobs_than_cores_do_not_help(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    known = {same_run(cell.parameters): 1.0 for cell in PLAN.cells}
    assert total_seconds(PLAN, known, 2) == total_seconds(PLAN, known, 64) == pytest.approx(1.5)


def test_the_middle_counts_not_the_slowest():
    assert seconds_of([judged(1), judged(2), judged(90)]) == pytest.approx(2)
    assert seconds_of([]) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(7.4, "about 7 s"), (300, "about 5 min"), (3600, "about 60 min"), (9000, "about 2.5 h")],
)
def test_times_in_words(seconds, text):
    assert in_words(seconds) == text


def test_the_command_that_repeats_a_run_asks_for_the_same(tmp_path):
    directory = ResultDir.create(tmp_path, "first-light", 5)
    directory.write_environment({"options": shlex.join(Aim(0.99, 0.02).options)})
    command = directory.write_reproduce(5)
    assert command.endswith("--seed 5 --confidence 0.99 --at-most 0.02")
    script = (directory.path / "reproduce.sh").read_text()
    assert '/scenario.yaml" --seed 5 --confidence 0.99 --at-most 0.02 "$@"' in script
