# SPDX-License-Identifier: Apache-2.0
"""Evidence of one run beside that of another: each exchange is refused, and none acquits.

Every attack renews the seal, as one would who means it: the seal alone is no protection against
files that were all recorded, and only not together.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import google_crc32c
import pytest
import runs_by_hand

from powercut.campaign.resume import earlier_result
from powercut.campaign.verify import verify
from powercut.model.errors import DamagedRecording
from powercut.model.verdict import FindingKind, Verdict
from powercut.recording.sealed import SealedTrial, open_trial
from powercut.store.layout import ResultDir
from powercut.store.trial_dir import TrialDir
from powercut.trial.record import TrialJob
from powercut.verdict.judge import judge_recording

LOG = ("disk.log", "disk.data")
RECOVERY = ("recovery.log", "recovery.data")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[ResultDir, ResultDir]:
    """Two runs of one scenario with one seed: all that differs is when."""
    folder = tmp_path_factory.mktemp("runs")
    return runs_by_hand.make_run(folder / "a"), runs_by_hand.make_run(folder / "b")


@pytest.fixture
def runs(made: tuple[ResultDir, ResultDir], tmp_path: Path) -> tuple[ResultDir, ResultDir]:
    """Copies, to be spoiled."""
    copies = []
    for name, run in zip("ab", made, strict=True):
        shutil.copytree(run.path, tmp_path / name)
        copies.append(ResultDir(tmp_path / name))
    return copies[0], copies[1]


def take(target: TrialDir, source: TrialDir, *names: str) -> None:
    """Puts files of one recording into another, which is sealed anew."""
    for name in names:
        shutil.copy(source.path / name, target.path / name)
    target.seal_recording()
    target.check_seal()


def edit(path: Path, change: Callable[[dict[str, object]], object]) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def verdicts(run: ResultDir) -> dict[str, Verdict]:
    """What the cuts of each cell say today, before its controls are heard (there are none)."""
    return {
        cell.cell: Verdict.worst(trial.verdict for trial in cell.trials)
        for cell in verify(run.path).cells
    }


def refused(trial: TrialDir, message: str) -> None:
    """INCONCLUSIVE with that message, and no analysis opens the recording."""
    result = judge_recording(SealedTrial(trial))
    assert result.verdict is Verdict.INCONCLUSIVE
    (found,) = [f for f in result.findings if message in f.message]
    assert found.kind is FindingKind.INCOMPLETE
    (again,) = [
        again
        for cell in verify(trial.run).cells
        for again in cell.trials
        if again.result_directory == trial.relative
    ]
    assert again.verdict is Verdict.INCONCLUSIVE


def test_left_alone_each_is_what_it_was(runs):
    for run in runs:
        assert verdicts(run) == {"honest": Verdict.SAFE, "lying": Verdict.LOSSY}
        for trial in run.trials():
            assert trial.check_seal()
            assert open_trial(trial).gaps == ()


@pytest.mark.parametrize("names", [LOG, RECOVERY, ("history.bin",), ("observation.json",)])
def test_of_another_trial_of_the_cell(runs, names):
    first, second = (runs[0].place_of("honest", number) for number in (1, 2))
    take(first, second, *names)
    refused(first, f"{names[0]}: it is ")


@pytest.mark.parametrize("names", [LOG, RECOVERY, ("history.bin",), ("observation.json",)])
def test_of_the_same_trial_in_another_run(runs, names):
    """The lie that only time tells: run id, cell, seed and contract are all the same."""
    a, b = (run.place_of("lying", 1) for run in runs)
    take(a, b, *names)
    result = judge_recording(SealedTrial(a))
    assert any("it is of another recording" in found.message for found in result.findings)
    assert FindingKind.INCOMPLETE in {found.kind for found in result.findings}
    assert result.verdict is not Verdict.SAFE


def test_acks_of_a_later_run_do_not_acquit_one_that_acknowledged_too_early(tmp_path):
    """When they were received, all that the earlier run had written was durable: SAFE."""
    early = runs_by_hand.make_run(tmp_path / "early", early=True).place_of("honest", 1)
    later = runs_by_hand.make_run(tmp_path / "later").place_of("honest", 1)
    assert judge_recording(SealedTrial(early)).verdict is Verdict.LOSSY
    take(early, later, "history.bin")
    refused(early, "history.bin: it is of another recording, and trial.json beside it is of cell")
    with pytest.raises(DamagedRecording, match=r"history\.bin: it is of another recording"):
        open_trial(early)


def test_the_log_of_an_honest_disk_does_not_stand_for_one_that_lies(runs):
    lying, honest = (runs[0].place_of(name, 1) for name in ("lying", "honest"))
    take(lying, honest, *LOG, *RECOVERY, "history.bin", "observation.json")
    refused(lying, "disk.log: it is the log of another run")


def test_a_log_with_another_contract(runs):
    """Its header was changed, checksum included, and names the right recording."""
    trial = runs[0].place_of("honest", 1)
    path = trial.path / "disk.log"
    raw = bytearray(path.read_bytes())
    raw[28] ^= 2  # PCLOG_FLUSH_HONOURED of `contract`, in harness/capture/log_format.h
    raw[252:256] = google_crc32c.value(bytes(raw[:252])).to_bytes(4, "little")
    path.write_bytes(raw)
    trial.seal_recording()
    refused(trial, "flush: ignored, and honoured")


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda trial: trial["parameters"]["disk"].update(flush="ignored"), "contract"),
        (lambda trial: trial["parameters"]["workload"].update(think="1ms"), "settings"),
        (lambda trial: trial["parameters"].update(expect="lossy"), "expectation"),
        (lambda trial: trial["trial"].update(seed=5), "seed"),
        (lambda trial: trial["trial"].update(cut_seed=5), "seed of the cut"),
        (lambda trial: trial.update(cell="lying"), "cell"),
        (lambda trial: trial.update(scenario_sha256="0" * 64), "scenario"),
        (lambda trial: trial.update(recording="0" * 32), "recording"),
        (lambda trial: trial.update(run_id="0" * 32), "run id"),
    ],
)
def test_another_trial_json(runs, change, name):
    trial = runs[0].place_of("honest", 1)
    edit(trial.path / "trial.json", change)
    trial.seal_recording()
    result = judge_recording(SealedTrial(trial))
    assert result.verdict is Verdict.INCONCLUSIVE, name
    for file in ("disk.log", "history.bin", "observation.json"):
        if name != "run id" or file == "disk.log":
            assert [f for f in result.findings if f"{file}: it is " in f.message], (name, file)


def test_a_scenario_that_was_changed(runs):
    run, _ = runs
    run.write_scenario(runs_by_hand.TEXT.replace("disk.flush: ignored, ", ""))
    with pytest.raises(DamagedRecording, match=r"scenario\.yaml: it is not the scenario that"):
        verify(run.path)
    run.write_scenario(runs_by_hand.TEXT.replace("expect: lossy", "expect: safe"))
    with pytest.raises(DamagedRecording, match=r"scenario\.yaml: it is not the scenario that"):
        verify(run.path)


def test_another_seed(runs):
    edit(runs[0].path / "environment.json", lambda value: value.update(seed=2))
    with pytest.raises(DamagedRecording, match="does not follow from 2"):
        verify(runs[0].path)


def test_a_cell_whose_evidence_is_gone(runs):
    run, _ = runs
    shutil.rmtree(run.path / "cells" / "lying")
    with pytest.raises(DamagedRecording, match="recordings are missing: cell 'lying'"):
        verify(run.path)
    (run.path / "verdict.json").unlink()
    with pytest.raises(DamagedRecording, match="recordings are missing: cell 'lying'"):
        verify(run.path)


def test_a_trial_whose_evidence_is_gone(runs):
    shutil.rmtree(runs[0].place_of("lying", 2).path)
    with pytest.raises(DamagedRecording, match="missing: cell 'lying', trial 2"):
        verify(runs[0].path)


def test_a_recording_in_the_place_of_another(runs):
    run, _ = runs
    first, second = (run.place_of("honest", number).path for number in (1, 2))
    shutil.rmtree(second)
    shutil.copytree(first, second)
    with pytest.raises(DamagedRecording, match=r"that belongs in .*honest/0001"):
        verify(run.path)


@pytest.mark.parametrize("name", ["disk.log", "disk.data", "history.bin", "recovery.log"])
def test_a_file_that_was_cut_short(runs, name):
    """Without its end a log cannot say what it would have ended with."""
    trial = runs[0].place_of("honest", 1)
    path = trial.path / name
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(DamagedRecording, match=rf"{name}: has \d+ bytes, and had"):
        verify(runs[0].path)
    trial.seal_recording()
    assert judge_recording(SealedTrial(trial)).verdict is Verdict.INCONCLUSIVE
    assert verdicts(runs[0])["honest"] is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("without", ["recording", "evidence_level"])
def test_a_trial_that_names_no_recording_is_refused(runs, without):
    """Else its evidence could be exchanged for any of the same run id and contract."""
    trial = runs[0].place_of("honest", 1)
    edit(trial.path / "trial.json", lambda value: value.pop(without))
    trial.seal_recording()
    with pytest.raises(DamagedRecording, match=r"trial\.json"):
        judge_recording(SealedTrial(trial))


def test_a_verdict_on_another_recording_is_made_again(tmp_path):
    """Two runs with one seed; the verdict of the one that was honest lies beside the other."""
    lossy = runs_by_hand.make_run(tmp_path / "a", early=True)
    honest = runs_by_hand.make_run(tmp_path / "b")
    place = lossy.place_of("honest", 1)
    record = place.read_record()
    job = TrialJob(
        record.scenario, record.cell, record.parameters, record.trial,
        bytes.fromhex(record.run_id), None,
    )  # fmt: skip
    assert earlier_result(place, job).verdict is Verdict.LOSSY
    shutil.copy(honest.place_of("honest", 1).path / "verdict.json", place.path)
    assert place.read_verdict().verdict is Verdict.SAFE
    assert earlier_result(place, job).verdict is Verdict.LOSSY
    assert place.read_verdict().verdict is Verdict.LOSSY


def test_a_trial_that_went_with_the_verdict_of_its_run_is_missed(runs):
    """Nothing then says that it was there, but the scenario, which asks for two."""
    run, _ = runs
    (run.path / "verdict.json").unlink()
    assert verify(run.path).cells[0].cell == "honest"
    shutil.rmtree(run.place_of("honest", 2).path)
    with pytest.raises(DamagedRecording, match="missing: cell 'honest', trial 2"):
        verify(run.path)
