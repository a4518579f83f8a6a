# SPDX-License-Identifier: Apache-2.0
"""What an interrupted run had made counts only if it is what it is taken for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from powercut.campaign.resume import check_same_components, earlier_result
from powercut.campaign.run import RunOptions
from powercut.campaign.runner import resume_run
from powercut.model.errors import DamagedRecording, HostError, UsageError
from powercut.model.verdict import Verdict
from powercut.scenario.plan import Trial, draw_trials
from powercut.scenario.settings import ControlKind, Parameters
from powercut.store.component import Component, RunComponents, read_components
from powercut.store.files import locked
from powercut.store.layout import ResultDir
from powercut.store.trial_dir import TrialDir, TrialRecord
from powercut.store.trial_result import TrialResult
from powercut.trial.job import TrialJob

PARAMETERS = Parameters()
FIRST, SECOND = draw_trials(1, "a", PARAMETERS, 2)


def job(trial: Trial, control: ControlKind | None = None) -> TrialJob:
    return TrialJob("s", "a", PARAMETERS, trial, bytes(16), control)


def verdict(place: TrialDir, trial: Trial) -> TrialResult:
    return TrialResult.judged(
        trial,
        verdict=Verdict.SAFE,
        acked=10,
        attempted=10,
        findings=(),
        result_directory=place.relative,
        binding=place.read_binding().name,
    )


def recorded(
    run: ResultDir, trial: Trial, *, judged: bool = True, control: ControlKind | None = None
) -> TrialDir:
    """A sealed recording in which there is nothing but a console."""
    place = run.trial("a", trial.number, control=control is not None)
    place.write_record(
        TrialRecord(
            powercut="0",
            scenario="s",
            cell="a",
            control=control,
            parameters=PARAMETERS,
            trial=trial,
            run_id="0" * 32,
        )
    )
    place.write_text("console.txt", "the guest's last words")
    place.seal_recording()
    if judged:
        place.write_verdict(verdict(place, trial))
    return place


@pytest.fixture
def run(tmp_path: Path) -> ResultDir:
    return ResultDir.create(tmp_path, "s", 1)


def test_a_verdict_stands(run):
    place = recorded(run, FIRST)
    assert earlier_result(place, job(FIRST)) == verdict(place, FIRST)
    place.drop_evidence()
    assert earlier_result(place, job(FIRST)) == verdict(place, FIRST)


def test_the_verdict_on_another_trial_is_not_taken_for_this_one(run):
    place = recorded(run, FIRST)
    place.write_verdict(verdict(place, SECOND))
    again = earlier_result(place, job(FIRST))
    assert again is not None
    assert (again.verdict, again.seed) == (Verdict.INCONCLUSIVE, FIRST.seed), "judged: no log"
    assert place.read_verdict() == again


def test_what_was_not_judged_is_judged_only_if_it_is_as_it_was_sealed(run):
    place = recorded(run, FIRST, judged=False)
    (place.path / "console.txt").write_text("the guest said something else")
    with pytest.raises(DamagedRecording, match=r"console\.txt: has"):
        earlier_result(place, job(FIRST))


def test_what_was_recorded_cannot_be_called_something_else(run):
    place = recorded(run, FIRST)
    record = json.loads((place.path / "trial.json").read_text())
    record["trial"]["number"], record["trial"]["seed"] = SECOND.number, SECOND.seed
    (place.path / "trial.json").write_text(json.dumps(record))
    with pytest.raises(DamagedRecording, match=r"trial\.json"):
        earlier_result(place, job(SECOND))


def test_what_a_run_began_with_is_not_made_up_later(run):
    part = Component(role="hypervisor", name="qemu", version="7.2", sha256="a" * 64)
    now = RunComponents(components=(part,), cells={"a": (0,)})
    check_same_components(run, now)
    assert read_components(run) == now, "nothing had been made with anything else"
    newer = part.model_copy(update={"version": "11.1"})
    with pytest.raises(UsageError, match=r"hypervisor was qemu 7\.2"):
        check_same_components(run, RunComponents(components=(newer,), cells={"a": (0,)}))
    with pytest.raises(DamagedRecording, match="does not say what b ran on"):
        check_same_components(run, RunComponents(components=(part,), cells={"b": (0,)}))
    recorded(run, FIRST)
    (run.path / "components.json").unlink()
    with pytest.raises(DamagedRecording, match=r"components\.json"):
        check_same_components(run, now)


def test_a_control_of_another_run_says_where_it_is_now(run, tmp_path, monkeypatch):
    """The controller had died between taking it over and writing its verdict anew."""
    other = ResultDir.create(tmp_path, "other", 2)
    made = recorded(other, FIRST, control=ControlKind.NO_SYNC)
    made.write_verdict(made.read_verdict().model_copy(update={"result_directory": "controls/b/1"}))
    place = run.place_of("a", 1, control=True)

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TrialDir, "write_verdict", dies)
        with pytest.raises(KeyboardInterrupt):
            place.adopt_recording(made)
    result = earlier_result(place, job(FIRST, ControlKind.NO_SYNC))
    assert result is not None
    assert result.result_directory == "controls/a/0001"
    assert place.read_verdict() == result


def test_what_somebody_is_at_work_on_was_not_interrupted(tmp_path):
    run = ResultDir.create(tmp_path, "s", 1)
    run.write_scenario("powercut: 1\nname: s\n")
    with locked(run.path, "run"), pytest.raises(HostError, match="another powercut is at work"):
        resume_run(run.path, RunOptions())
    with pytest.raises(DamagedRecording, match="does not say what was to be run"):
        resume_run(run.path, RunOptions())
