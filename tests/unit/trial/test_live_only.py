# SPDX-License-Identifier: Apache-2.0
"""Trials on a machine that keeps its disk to itself: what a cut convicts, what it never proves.

The fake machine's disk has a volatile cache, and may lie about flushes.  Nobody sees a request of
it: what came back is what its guest read after the power had come on again.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_machine import FAKE, FAKE_LIVE, Behaviour

from powercut.model.errors import DamagedRecording, UsageError
from powercut.model.verdict import EvidenceLevel, FindingKind, Verdict
from powercut.paths import CACHE
from powercut.recording.open_recording import open_recording
from powercut.recording.sealed import SealedTrial, open_trial
from powercut.rig.engine_shelf import EngineShelf
from powercut.rig.rig import Rig
from powercut.scenario.load import parse_scenario
from powercut.scenario.machines import MACHINES
from powercut.scenario.plan import Trial, Trigger, TriggerKind
from powercut.scenario.settings import (
    CutSettings,
    DiskSettings,
    FilesystemSettings,
    MachineSettings,
    Parameters,
    WalSettings,
)
from powercut.store.trial_dir import TrialDir
from powercut.trial.job import TrialJob
from powercut.trial.record import record_trial
from powercut.verdict.judge import judge_recording

RECORD = 512
ACKED = 20


@pytest.fixture(autouse=True)
def backends(monkeypatch):
    monkeypatch.setitem(MACHINES, "fake", FAKE)
    monkeypatch.setitem(MACHINES, "fake-live", FAKE_LIVE)


def parameters(*, backend="fake-live", kind="power-loss", slots=4096) -> Parameters:
    return Parameters(
        machine=MachineSettings(backend=backend),
        disk=DiskSettings(size=4 << 20),
        filesystem=FilesystemSettings(type="raw"),
        workload=WalSettings(layout="raw", record=RECORD, align=0, capacity=slots * RECORD),
        cut=CutSettings(kind=kind, policy="drop" if kind == "power-loss" else "keep"),
        expect="survived" if backend == "fake-live" else "safe",
    )


@pytest.fixture
def record(tmp_path: Path):
    def record_it(behaviour=None, trigger="acks", value=ACKED, **settings) -> TrialDir:
        wanted = parameters(**settings)
        directory = TrialDir(tmp_path / "run" / "cells" / "cell" / "0001", tmp_path / "run")
        directory.path.mkdir(parents=True)
        rig = Rig(CACHE)
        backend = rig.backend(wanted.machine.backend)
        backend.behaviour = behaviour or Behaviour(hangs_after=ACKED)
        made = Trial(1, 7, 8, Trigger(TriggerKind(trigger), value))
        job = TrialJob("live", "cell", wanted, made, bytes(range(16)))
        record_trial(rig, job, directory, lambda _: None, EngineShelf())
        assert not any(machine.running for machine in backend.made)
        return directory

    return record_it


# --- the planted fault, and its honest twin ----------------------------------------------


def test_a_disk_that_lies_is_convicted_of_every_record_by_its_cut_alone(record):
    result = judge_recording(SealedTrial(record(Behaviour(hangs_after=ACKED, lies=True))))
    assert (result.verdict, result.evidence_level) == (Verdict.LOSSY, EvidenceLevel.LIVE_ONLY)
    assert [str(span) for span in result.lost_lsns] == [f"1-{ACKED}"]
    assert [finding.kind for finding in result.live_losses] == [FindingKind.LOST]
    assert (result.commits_acked, result.commits_lost) == (ACKED, ACKED)


@pytest.mark.parametrize("kind", ["power-loss", "vm-kill", "guest-crash"])
def test_an_honest_one_survives_which_is_not_safe(record, kind):
    directory = record(kind=kind)
    result, sealed = judge_recording(SealedTrial(directory)), directory.read_record()
    assert (result.verdict, result.findings) == (Verdict.SURVIVED, ())
    assert result.verdict is not Verdict.SAFE
    assert (sealed.trouble, sealed.evidence_level) == ("", EvidenceLevel.LIVE_ONLY)
    assert (result.exposure, result.states, result.in_flight, result.acks) == (None,) * 4
    assert (result.commits_acked, result.commits_lost) == (ACKED, 0)
    assert not any(name.startswith(("disk.", "recovery.log")) for name in directory.check_seal())


def test_a_kill_leaves_the_disk_its_power_and_convicts_nobody(record):
    result = judge_recording(
        SealedTrial(record(Behaviour(hangs_after=ACKED, lies=True), kind="vm-kill"))
    )
    assert result.verdict is Verdict.SURVIVED


def test_a_workload_that_does_not_sync_is_seen_to_lose_records(record):
    result = judge_recording(SealedTrial(record(Behaviour(hangs_after=ACKED, syncs=False))))
    assert [str(span) for span in result.lost_lsns] == [f"1-{ACKED}"]


# --- what nobody can know is no verdict --------------------------------------------------


def test_records_whose_attempts_the_cut_has_swallowed_are_no_inventions(record):
    result = judge_recording(SealedTrial(record(Behaviour(unheard_after=ACKED, last=ACKED + 5))))
    assert (result.verdict, result.findings) == (Verdict.SURVIVED, ())
    assert (result.commits_acked, result.commits_attempted) == (ACKED, ACKED + 5)


def test_a_log_that_may_have_gone_round_convicts_nobody(record):
    result = judge_recording(
        SealedTrial(record(Behaviour(hangs_after=ACKED, lies=True), slots=2 * ACKED - 2))
    )
    assert (result.verdict, result.commits_lost) == (Verdict.INCONCLUSIVE, 0)
    assert "goes round" in result.findings[0].message


def test_a_machine_that_died_before_its_cut_survived_nothing(record):
    result = judge_recording(SealedTrial(record(Behaviour(dies_after=12), value=1000)))
    assert (result.verdict, result.commits_acked) == (Verdict.INCONCLUSIVE, 12)


def test_a_cut_at_a_flush_that_nobody_sees_is_refused(record):
    directory = record(trigger="flushes", value=3)
    assert "flush 3 cannot be seen" in directory.read_record().trouble
    assert judge_recording(SealedTrial(directory)).verdict is Verdict.INCONCLUSIVE


# --- attacks: nothing becomes live only by what is taken away -----------------------------


def change(directory: TrialDir, **changes) -> None:
    """Writes other things into trial.json, and seals the folder again."""
    path = directory.path / "trial.json"
    told = json.loads(path.read_text())
    for key, value in changes.items():
        if value is None:
            told.pop(key)
        else:
            told[key] = value
    path.write_text(json.dumps(told))
    directory.seal_recording()


def without_logs(directory: TrialDir) -> None:
    for path in directory.path.glob("*.log"):
        path.unlink()
    for path in directory.path.glob("*.data"):
        path.unlink()


def lost_all(backend="fake") -> dict:
    return {"behaviour": Behaviour(hangs_after=ACKED), "backend": backend}


def test_a_log_that_is_gone_makes_no_trial_live_only(record):
    directory = record(**lost_all())
    assert judge_recording(SealedTrial(directory)).evidence_level is EvidenceLevel.RECORDED
    without_logs(directory)
    result = judge_recording(SealedTrial(directory))
    assert (result.verdict, result.evidence_level) == (
        Verdict.INCONCLUSIVE,
        EvidenceLevel.RECORDED,
    )


def test_nor_does_saying_so(record):
    directory = record(**lost_all())
    without_logs(directory)
    change(directory, evidence_level="live-only")
    with pytest.raises(DamagedRecording, match="evidence is live-only, and that of fake is recor"):
        judge_recording(SealedTrial(directory))


def test_nor_does_another_machine_that_never_ran(record):
    directory = record(**lost_all())
    without_logs(directory)
    told = directory.read_record().model_dump(mode="json")["parameters"]
    told["machine"]["backend"] = "fake-live"
    told["expect"] = "survived"
    change(directory, evidence_level="live-only", parameters=told)
    result = judge_recording(SealedTrial(directory))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert all("another recording" in finding.message for finding in result.findings)


def test_a_level_that_is_left_out_is_another_recording(record):
    directory = record(**lost_all())
    change(directory, evidence_level=None)
    with pytest.raises(DamagedRecording, match="does not say whose recording it is"):
        judge_recording(SealedTrial(directory))


def test_a_live_only_trial_with_a_log_beside_it_is_refused(record, tmp_path):
    directory = record()
    (directory.path / "disk.log").write_bytes(b"PC")
    with pytest.raises(DamagedRecording, match="no disk was recorded"):
        judge_recording(SealedTrial(directory))


def test_a_live_only_trial_is_not_made_a_recorded_one(record):
    directory = record(Behaviour(hangs_after=ACKED, lies=True))
    change(directory, evidence_level="recorded")
    with pytest.raises(DamagedRecording, match="that of fake-live is live-only"):
        judge_recording(SealedTrial(directory))


# --- what looks at requests refuses in one sentence --------------------------------------


def test_what_looks_at_requests_is_refused(record):
    directory = record()
    for look in (open_trial, lambda trial: open_recording(trial.path)):
        with pytest.raises(UsageError, match="fake-live does not record its disk"):
            look(directory)


# --- scenarios -------------------------------------------------------------------------------

SCENARIO = """powercut: 1
name: live
filesystem: {type: raw}
disk: {size: 4MiB}
workload: {layout: raw, record: 512, capacity: 2MiB}
machine: {backend: fake-live}
cut: {trigger: {acks: 20}}
trials: 3
expect: survived
"""


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("expect: safe", "expect: the disk of fake-live is not recorded"),
        ("disk: {size: 4MiB, flush: ignored}", "disk.flush: the disk is that of fake-live"),
        ("cut: {trigger: {flushes: 3}}", "cut.trigger: no flush of fake-live is seen"),
        ("cut: {policy: random, trigger: {acks: 20}}", "cut.policy: the disk of fake-live decides"),
        ("explore: {budget: 100}", "explore: fake-live records no disk"),
        ("controls: [lying-disk]", "controls: lying-disk is another disk"),
    ],
)
def test_what_the_evidence_does_not_allow_is_refused_with_its_line(line, says):
    key = line.partition(":")[0]
    kept = [each for each in SCENARIO.splitlines() if not each.startswith(f"{key}:")]
    text = "\n".join([*kept, line])
    with pytest.raises(UsageError) as refused:
        parse_scenario(text, Path("live.yaml"))
    assert says in str(refused.value)
    assert f"live.yaml:{len(kept) + 1}:" in str(refused.value)


def test_a_recorded_disk_is_asked_for_more_than_to_survive():
    with pytest.raises(UsageError, match="fake records its disk, which shows more"):
        parse_scenario(SCENARIO.replace("fake-live", "fake"), Path("live.yaml"))


def test_an_unknown_backend_is_named_with_those_most_like_it(monkeypatch):
    for name in ("libvirt", "external", "firecracker"):
        monkeypatch.setitem(MACHINES, name, FAKE)
    with pytest.raises(UsageError) as refused:
        parse_scenario(SCENARIO.replace("fake-live", "libvrt"), Path("live.yaml"))
    said = str(refused.value)
    assert "live.yaml:6:11: machine.backend: should be one of libvirt, " in said
    assert said.endswith('got "libvrt"; did you mean libvirt?')
    assert len(said.partition("one of ")[2].partition(", got")[0].split(", ")) == 3
