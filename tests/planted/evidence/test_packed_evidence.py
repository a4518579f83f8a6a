# SPDX-License-Identifier: Apache-2.0
"""Packed evidence is the same evidence: same bytes, seal and verdict, and no worse guarded."""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
from pathlib import Path

import google_crc32c
import pytest
import runs_by_hand
from bundles import verify_bundle

from powercut.campaign.bundle import make_bundle
from powercut.campaign.verify import verify
from powercut.model.errors import DamagedRecording
from powercut.model.verdict import Verdict
from powercut.recording.materialize import materialize
from powercut.recording.open_recording import open_recording
from powercut.recording.sealed import SealedTrial
from powercut.recording.state_names import resolve_state
from powercut.store import packed
from powercut.store.layout import ResultDir
from powercut.store.manifest import PACK
from powercut.store.packed import evidence_bytes
from powercut.store.trial_dir import TrialDir
from powercut.verdict.judge import judge_recording

PACKABLE = tuple(name for name in packed.PACKABLE if name != "lines.bin")
"""What is packed of a recording of the workload; the lines are those of programs."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> ResultDir:
    return runs_by_hand.make_run(tmp_path_factory.mktemp("run"))


@pytest.fixture
def run(made: ResultDir, tmp_path: Path) -> ResultDir:
    """A copy, to be packed and spoiled."""
    shutil.copytree(made.path, tmp_path / "run")
    return ResultDir(tmp_path / "run")


def digests(trial: TrialDir) -> dict[str, str]:
    return {
        name: hashlib.sha256(evidence_bytes(trial.path / name).tobytes()).hexdigest()
        for name in PACKABLE
    }


def test_everything_is_as_it_was_and_a_hundredth_of_its_size(run, tmp_path):
    before = verify(run.path)
    for trial in run.trials():
        sealed, contents = trial.check_seal(), digests(trial)
        size = sum((trial.path / name).stat().st_size for name in PACKABLE)
        trial.pack()
        assert not any((trial.path / name).exists() for name in PACKABLE)
        assert digests(trial) == contents
        assert trial.check_seal() == sealed
        assert trial.kept
        lying = trial.path.parent.name == "lying"
        assert (trial.path / PACK).stat().st_size < size / 10, size
        assert judge_recording(SealedTrial(trial)).verdict is (
            Verdict.LOSSY if lying else Verdict.SAFE
        )
        trial.pack()  # nothing is left to do
    after = verify(run.path)
    assert without_times(after.model_dump(mode="json")) == without_times(
        before.model_dump(mode="json")
    )


TIMES = {"seconds", "timings_s"}


def without_times(value):
    """All but what says how long the judging took, exploration among it."""
    if isinstance(value, dict):
        return {key: without_times(one) for key, one in value.items() if key not in TIMES}
    return [without_times(one) for one in value] if isinstance(value, list) else value


def test_states_of_a_packed_recording_are_the_same_disks(run, tmp_path):
    trial = run.place_of("honest", 1)
    made = []
    for name in ("before", "after"):
        recording = open_recording(trial.path)
        state = resolve_state(recording, "ack:7")
        made.append(materialize(recording, state, tmp_path / name).sha256)
        trial.pack()
    assert made[0] == made[1]


def test_a_bundle_of_it_is_the_same_bundle(run, tmp_path):
    trial = run.place_of("lying", 1)
    bundles = tmp_path / "plain", tmp_path / "packed"
    for path in bundles:
        make_bundle(trial.path, path)
        trial.pack()
    assert bundles[0].read_bytes() == bundles[1].read_bytes()
    assert not verify_bundle(bundles[1]).differences


def test_a_seal_may_be_renewed_and_evidence_dropped(run):
    trial = run.place_of("honest", 1)
    sealed = trial.check_seal()
    manifest = (trial.path / "manifest.json").read_bytes()
    trial.pack()
    trial.seal_recording()
    assert (trial.path / "manifest.json").read_bytes() == manifest
    assert trial.check_seal() == sealed
    trial.drop_evidence()
    assert not trial.kept


def test_a_pack_of_another_recording_is_refused_though_its_seal_was_renewed(run):
    first, second = (run.place_of("honest", number) for number in (1, 2))
    first.pack(), second.pack()
    shutil.copy(second.path / PACK, first.path / PACK)
    with pytest.raises(DamagedRecording, match=r"disk\.log: (its contents changed|has)"):
        first.check_seal()
    first.seal_recording()
    result = judge_recording(SealedTrial(first))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert any("disk.log: it is the log of another run" in f.message for f in result.findings)


def test_interrupted_packing_leaves_whole_evidence(run, monkeypatch):
    trial = run.place_of("honest", 1)
    contents = digests(trial)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", fail_at(2))
        with pytest.raises(RuntimeError):
            trial.pack()
    assert len([name for name in PACKABLE if (trial.path / name).exists()]) == 4
    assert digests(trial) == contents
    assert trial.check_seal()
    trial.pack()
    assert not any((trial.path / name).exists() for name in PACKABLE)
    assert digests(trial) == contents


def fail_at(call: int):
    calls = []
    unlink = Path.unlink

    def fail(path, missing_ok=False):
        if path.name in PACKABLE:
            calls.append(path)
            if len(calls) == call:
                raise RuntimeError("killed")
        unlink(path, missing_ok=missing_ok)

    return fail


def test_a_file_that_differs_from_the_pack_is_not_removed(run):
    trial = run.place_of("honest", 1)
    before = (trial.path / "history.bin").read_bytes()
    trial.pack()
    (trial.path / "history.bin").write_bytes(before[:-1] + b"x")
    with pytest.raises(DamagedRecording, match="not the file beside it"):
        trial.pack()
    assert (trial.path / "history.bin").is_file()
    with pytest.raises(DamagedRecording, match=r"history\.bin: its contents changed"):
        trial.check_seal()


def test_a_file_that_is_too_large_stays_as_it_is(run, monkeypatch):
    trial = run.place_of("honest", 1)
    monkeypatch.setattr(packed, "SIZE_MAX", (trial.path / "disk.log").stat().st_size)
    contents = digests(trial)
    trial.pack()
    assert (trial.path / "disk.data").is_file()
    assert not (trial.path / "disk.log").exists()
    assert digests(trial) == contents
    assert trial.check_seal()


def test_no_damage_to_a_pack_passes(run):
    """Each byte flipped, and the end cut off anywhere: the same contents, or an error."""
    trial = run.place_of("honest", 1)
    contents = digests(trial)
    trial.pack()
    whole = (trial.path / PACK).read_bytes()
    spoiled = [whole[:size] for size in range(0, len(whole), 7)]
    for at in range(0, len(whole), 3):
        spoiled.append(whole[:at] + bytes([whole[at] ^ 0x11]) + whole[at + 1 :])
    passed = 0
    for data in spoiled:
        (trial.path / PACK).write_bytes(data)
        try:
            assert digests(trial) == contents
            passed += 1
        except DamagedRecording:
            continue
    assert passed < len(spoiled) / 100, "some bits of a frame mean nothing"


def entry(**changes: object) -> str:
    good = {"name": "disk.log", "size": 9, "data": 9, "folds": 0}
    return json.dumps({"run_id": "00" * 16, "files": [good | changes]})


@pytest.mark.parametrize(
    "index",
    [
        "[]",
        '{"run_id": "00", "files": []}',
        entry(name="../x"),
        entry(size=1e3),
        entry(size=1 << 40),
        entry(size=-1),
        entry(data=-1),
        entry(data=1 << 40),
        entry(),
        entry(folds=9),
    ],
)
def test_an_index_that_makes_no_sense(run, index):
    trial = run.place_of("honest", 1)
    trial.pack()
    raw = index.encode()
    head = b"PCPACK1\n" + struct.pack("<II", len(raw), google_crc32c.value(raw))
    (trial.path / PACK).write_bytes(head + raw + bytes(100))
    with pytest.raises(DamagedRecording, match=r"evidence\.pack: "):
        evidence_bytes(trial.path / "disk.log")
