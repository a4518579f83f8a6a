# SPDX-License-Identifier: Apache-2.0
"""What a run says of its cells has to follow from the trials and controls beside it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from powercut.campaign.assemble import Outcome, cell_results, missing_controls, outcomes_of_cells
from powercut.campaign.selection import Selection
from powercut.model.errors import DamagedRecording
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.scenario.load import expand, parse_scenario
from powercut.scenario.plan import Trial, draw_trials
from powercut.scenario.settings import ControlKind, Parameters
from powercut.store.layout import ResultDir
from powercut.store.results import RunResult
from powercut.store.trial_dir import TrialRecord, text_digest
from powercut.store.trial_result import Exposure, TrialResult
from powercut_extras.certify.follows import problems_of_runs
from powercut_extras.certify.measured import MEASUREMENT_FILE, read_measured
from powercut_extras.certify.measurement import Measurement
from powercut_extras.certify.order import CertificateDir, Order

TEXT = """powercut: 1
name: two
trials: 2
filesystem: {type: raw}
workload: {direct: true, record: 4096, align: 4096}
cells:
  - {name: honest}
  - {name: back, machine.cache: writeback}
  - {name: unsafe, machine.cache: unsafe, expect: lossy}
"""
SEED = 5
LOST = Finding(FindingKind.LOST, Verdict.LOSSY, "gone", (LsnRange(1, 10),))


class Made:
    """A certificate's folder with one run, as a run leaves it that went as expected."""

    def __init__(self, results: Path) -> None:
        order = Order(
            title="t",
            seed=SEED,
            command="./powercut certify",
            scenarios=("two",),
            strategy="listed",
            selection=Selection().as_json(),
        )
        self.directory = CertificateDir.create(results, order, {"two": TEXT})
        self.run = ResultDir.create(self.directory.runs, "two", SEED)
        self.run.write_scenario(TEXT)
        self.run.write_environment({"seed": SEED})
        plan = expand(parse_scenario(TEXT, Path("two.yaml")), seed=SEED)
        trials = {
            cell.name: [
                self.trial(cell.name, cell.parameters, trial, lossy=cell.name == "unsafe")
                for trial in cell.trials
            ]
            for cell in plan.cells
        }
        known = outcomes_of_cells(plan, trials)
        for key, (name, control) in missing_controls(plan, trials, known).items():
            (trial,) = draw_trials(SEED, name, control.parameters, 1)
            lossy = control.expected is Verdict.LOSSY
            made = self.trial(name, control.parameters, trial, lossy=lossy, control=control.kind)
            known[key] = Outcome(f"control {name}", made.verdict, made.result_directory)
        self.run.write_verdict(
            RunResult.of(
                powercut="0",
                scenario="two",
                description="",
                scenario_file="two.yaml",
                seed=SEED,
                started="2026-11-21T00:00:00+00:00",
                seconds=1.0,
                cells=cell_results(plan, trials, known, self.run),
            )
        )

    def trial(
        self,
        name: str,
        parameters: Parameters,
        trial: Trial,
        *,
        lossy: bool,
        control: ControlKind | None = None,
    ) -> TrialResult:
        place = self.run.trial(name, trial.number, control=control is not None)
        place.write_record(
            TrialRecord(
                powercut="0",
                scenario="two",
                cell=name,
                control=control,
                parameters=parameters,
                trial=trial,
                run_id="0" * 32,
                scenario_sha256=text_digest(TEXT.encode()),
            )
        )
        place.write_text("console.txt", "")
        place.seal_recording()
        result = TrialResult.judged(
            trial,
            verdict=Verdict.LOSSY if lossy else Verdict.SAFE,
            acked=10,
            attempted=11,
            findings=[LOST] if lossy else [],
            exposure=Exposure(records=10 * lossy, never_durable=0, longest_ms=0.5),
            timings_s={"boot": 0.1, "cut": 0.2},
            result_directory=place.relative,
            binding=place.read_binding().name,
        )
        place.write_verdict(result)
        return result

    @property
    def problems(self) -> list[str]:
        return [text.rpartition("verdict.json: ")[2] for text in problems_of_runs(self.directory)]

    def change(self, edit: Callable[[Any], None], name: str = "verdict.json") -> None:
        path = self.run.path / name
        value = json.loads(path.read_bytes())
        edit(value)
        path.write_text(json.dumps(value))


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


def test_what_follows_has_no_problem(made):
    assert made.problems == []
    for trial in made.run.trials():
        trial.drop_evidence()
    assert made.problems == [], "what was found stays when evidence goes"


def test_a_cell_vouches_for_others_by_its_worst_trial():
    """An honest twin that lost in its second cut is no honest twin that behaved."""
    plan = expand(parse_scenario(TEXT, Path("two.yaml")), seed=SEED)
    trials = {
        cell.name: [
            TrialResult.judged(
                trial,
                verdict=Verdict.LOSSY if trial.number == 2 else Verdict.SAFE,
                acked=10,
                attempted=11,
                findings=[LOST] if trial.number == 2 else [],
                exposure=None,
                timings_s={},
                result_directory=f"{cell.name}/{trial.number:04d}",
            )
            for trial in cell.trials
        ]
        for cell in plan.cells
    }
    known = outcomes_of_cells(plan, trials)
    assert {outcome.verdict for outcome in known.values()} == {Verdict.LOSSY}
    assert all(outcome.directory.endswith("/0002") for outcome in known.values())


def save_the_lossy(run: Any) -> None:
    """As whoever wants a better verdict would write it: no count contradicts another."""
    good, bad = run["cells"][0], run["cells"][2]
    bad.update({key: good[key] for key in good if key not in ("cell", "parameters", "expected")})
    for trial, other in zip(bad["trials"], good["trials"], strict=True):
        trial.update(other, result_directory=f"cells/unsafe/{other['trial']:04d}")


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (save_the_lossy, "unsafe: trial 1: beside the recording stands another verdict"),
        (
            lambda run: run["cells"][2].update(verdict="safe"),
            "unsafe: verdict: it is not what its trials and controls add up to",
        ),
        (lambda run: run["cells"][0].update(commits_acked=2000), "honest: commits_acked: it is"),
        (
            lambda run: run["cells"][0].update(loss_probability_upper_95=0.001),
            "honest: loss_probability_upper_95: it is",
        ),
        (lambda run: run["cells"].pop(), "its cells are not those of the scenario"),
        (lambda run: run.update(seed=6), "its seed is 6, and 5 was ordered"),
        (lambda run: run["cells"][0]["trials"].pop(), "honest: 1 trials, and 2 were ordered"),
        (
            lambda run: run["cells"][0]["trials"][1].update(run["cells"][0]["trials"][0]),
            "honest: its trials are not those that were ordered",
        ),
        (
            lambda run: run["cells"][0]["parameters"]["machine"].update(cache="writeback"),
            "honest: parameters: it is not",
        ),
        (lambda run: run["cells"][0]["controls"].pop(), "honest: its controls are not those"),
        (
            # The control of another combination.
            lambda run: run["cells"][0].update(controls=run["cells"][1]["controls"]),
            "honest: control lying-disk: the recording is of another combination",
        ),
        (
            # A cell that lost is a control of no kind.
            lambda run: run["cells"][0]["controls"][1].update(result_directory="cells/unsafe/0001"),
            "honest: control no-sync: the recording is of another combination",
        ),
        (
            lambda run: run["cells"][0]["controls"][0].update(result_directory="../x"),
            "honest: control lying-disk: ../x is no recording of this run",
        ),
    ],
)
def test_what_does_not_follow_is_named(made, edit, said):
    made.change(edit)
    assert any(problem.startswith(said) for problem in made.problems), made.problems


def test_a_loss_cannot_be_hidden_by_leaving_its_trial_out(made):
    made.change(lambda v: v.update(verdict="lossy"), "cells/honest/0002/verdict.json")

    def leave_out(run: Any) -> None:
        run["cells"][0]["trials"].pop()

    made.change(leave_out)
    assert "honest: trial 2 is left out, and is worse than the verdict" in made.problems


def test_a_control_that_did_not_lose_is_not_taken_for_one_that_did(made):
    made.change(lambda v: v.update(verdict="safe"), "controls/no-sync-honest/0001/verdict.json")
    assert "honest: control no-sync: beside the recording stands another verdict" in made.problems


def test_a_recording_of_other_settings_is_named_although_its_evidence_is_gone(made):
    for trial in made.run.trials():
        trial.drop_evidence()

    def other(record: Any) -> None:
        record["parameters"]["machine"]["cache"] = "writeback"

    made.change(other, "cells/honest/0001/trial.json")
    said = "honest: trial 1: the recording is of other settings, or of another seed"
    assert said in made.problems
    assert any("trial.json: has" in problem for problem in made.problems), "and it was sealed"


def test_a_measurement_is_of_the_cell_that_it_lies_under(tmp_path):
    run = ResultDir.create(tmp_path, "s", SEED)
    plain, slow = Parameters(), Parameters.model_validate({"machine": {"cache": "unsafe"}})
    for name, of, parameters in (("a", "a", plain), ("b", "a", plain), ("c", "c", plain)):
        place = run.measurement(name)
        place.mkdir(parents=True)
        made = Measurement(scenario="s", cell=of, parameters=parameters)
        (place / MEASUREMENT_FILE).write_text(made.model_dump_json())
    found = read_measured(run, "a", plain)
    assert found is not None
    assert found.cell == "a"
    assert read_measured(run, "d", plain) is None
    for name, parameters in (("b", plain), ("c", slow)):
        with pytest.raises(DamagedRecording, match="or with other settings"):
            read_measured(run, name, parameters)


class OneUndecided(Made):
    """Of the cell `honest` one cut of two came to nothing."""

    def trial(self, name, parameters, trial, *, lossy, control=None):
        result = super().trial(name, parameters, trial, lossy=lossy, control=control)
        if (name, trial.number) != ("honest", 2):
            return result
        result = result.model_copy(update={"verdict": Verdict.INCONCLUSIVE})
        self.run.at(result.result_directory).write_verdict(result)
        return result


def test_a_cell_without_a_verdict_has_its_controls_as_any_other(tmp_path):
    made = OneUndecided(tmp_path)
    cell = made.run.read_verdict().cells[0]
    assert cell.verdict is Verdict.INCONCLUSIVE
    assert all(control.behaved for control in cell.controls)
    assert len(cell.controls) == 2
    assert made.problems == []
    made.change(lambda run: run["cells"][0].update(controls=[]))
    assert made.problems, "none"
    made.change(lambda run: run["cells"][0].update(controls=run["cells"][2]["controls"]))
    assert made.problems, "controls of another verdict"
