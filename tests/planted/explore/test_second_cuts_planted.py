# SPDX-License-Identifier: Apache-2.0
"""Traps behind a recovery that looks right: each must be found, and an honest one not.

The recordings are made by the uml engine itself: a workload on an empty file system, with
every write on record.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from handmade import history
from recordings_made import recording_made

from powercut.crash.evidence import gather
from powercut.crash.states import Again, CrashState
from powercut.explore import state_judge
from powercut.explore import worker as explore_worker
from powercut.explore.disks import DiskMedium
from powercut.explore.explorer import ExplorerRun
from powercut.explore.recovery_timeline import Durability, instant_after, timeline_of_record
from powercut.explore.request import PER_RECOVERY, Budget, ExploreRequest, Prune
from powercut.explore.work import Work
from powercut.explore.worker import LocalWorker
from powercut.model.contract import DeviceContract, Honour
from powercut.model.timeline import RequestKind
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.recording.sealed import TrialRecording
from powercut.recover.plan import GoOn
from powercut.recover.uml.engine import UmlEngine, unavailable
from powercut.rig import commands
from powercut.rig.recovery import going_on
from powercut.scenario.plan import Trial, Trigger, TriggerKind
from powercut.scenario.settings import (
    DiskSettings,
    FilesystemSettings,
    Parameters,
    WalSettings,
)
from powercut.store.trial_dir import TrialDir, TrialRecord
from powercut.workload.wal.commands import wal_layout
from powercut.workload.wal.promises import WalPromises

pytestmark = pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable()))

RUN_ID = bytes(range(16))
SIZE = 16 << 20
RECORDS = 40
MKFS = {
    "ext4": ["mkfs.ext4", "-q", "-F"],
    "xfs": ["mkfs.xfs", "-q", "-f", "--unsupported"],
    # Without checksums, so that nothing but its use shows that a bitmap is an old one.
    "ext4-plain": ["mkfs.ext4", "-q", "-F", "-b", "4096", "-O", "^metadata_csum,^uninit_bg"],
}


def tool(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def recording(folder: Path, kind: str, **workload: object) -> TrialRecording:
    """A workload of 40 records, all acknowledged when it ended; then a clean unmount."""
    folder.mkdir()
    trial = TrialDir(folder, folder)
    name, *options = MKFS[kind]
    with trial.base_image.open("wb") as file:
        file.truncate(SIZE)
    argv = [tool(name), *options, str(trial.base_image)]
    subprocess.run(argv, check=True, capture_output=True, timeout=60)
    parameters = Parameters(
        disk=DiskSettings(size=SIZE, atomic_unit=4096),
        filesystem=FilesystemSettings(type=kind.partition("-")[0]),
        workload=WalSettings(**{"record": 4096, "sync": "fdatasync", **workload}),
    )
    plan = commands.recovery_plan(parameters, RUN_ID)
    plan = going_on(plan, parameters, RUN_ID, RECORDS)
    with UmlEngine(trial.base_image, plan) as engine:
        engine.start(timeout_s=120)
        seen, raw = engine.record((), timeout_s=60)
    assert seen.later is not None
    assert seen.later.acked == RECORDS
    contract = DeviceContract(atomic_unit=4096)
    timeline = timeline_of_record(
        raw, disk_size=SIZE, durability=Durability(contract, through=False)
    )
    told = history([(RECORDS, instant_after(timeline))], [(RECORDS, 0)])
    layout = wal_layout(parameters)
    evidence = gather(timeline, told, RUN_ID, layout, deep=True)
    record = TrialRecord(
        powercut="0",
        scenario="handmade",
        cell=kind,
        parameters=parameters,
        trial=Trial(1, 1, Trigger(TriggerKind.ACKS, 1), 1),
        run_id=RUN_ID.hex(),
    )
    return recording_made(trial, record, timeline, WalPromises(evidence))


@pytest.fixture(scope="module", params=["ext4", pytest.param("xfs", marks=pytest.mark.nightly)])
def recorded(request, tmp_path_factory):
    return recording(tmp_path_factory.mktemp(request.param) / "trial", request.param)


@pytest.fixture(scope="module")
def ext4(tmp_path_factory):
    return recording(tmp_path_factory.mktemp("one") / "trial", "ext4")


def explored(recorded: TrialRecording, **wanted: object):
    wanted = {"confirm": False, "budget": Budget(states=120), "seed": 3, **wanted}
    request = ExploreRequest(**wanted)
    return ExplorerRun(DiskMedium(recorded, request), request).explore()


def lossy(result) -> dict[FindingKind, tuple[LsnRange, ...]]:
    return {found.kind: found.lsns for found in result.findings if found.verdict is Verdict.LOSSY}


def test_honest_recoveries_survive_cuts_and_go_on(recorded):
    result = explored(recorded, after=8, depth=2)
    assert result.findings == ()
    assert result.verdict is Verdict.SAFE
    coverage = result.coverage
    assert coverage.distinct == 60
    assert coverage.recoveries >= 2
    assert coverage.recovery_depth == 2
    assert 60 <= coverage.recovery_states < 60 + PER_RECOVERY
    assert coverage.recovery_states_ended >= 2
    assert coverage.went_on == coverage.distinct + coverage.recovery_states
    assert (coverage.no_room, coverage.recoveries_unrecorded, coverage.recoveries_live) == (0, 0, 0)


def after_the_acks(recorded: TrialRecording) -> CrashState:
    """Only what is durable when the last ack has come: a journal that must be replayed."""
    return CrashState(instant_after(recorded.space.timeline) + 1, (), policy="durable-only")


def second_cuts(recorded: TrialRecording, *, limit: int = 200, after: int = 0, **patched: object):
    """The findings on states of one recovery, which a patched worker has put on record."""
    work = Work(recorded.directory.path, recorded.directory.run, "uml", Prune.BYTES, 1, after)
    with LocalWorker(work, recorded) as worker:
        for name, value in patched.items():
            setattr(worker, name, value)
        task = explore_worker.Deepen(after_the_acks(recorded), limit, 1, 5)
        answers = worker.deepen(task)
    assert answers.recoveries.recorded == 1
    assert answers.recoveries.states == len(answers.judged) >= 20
    return [(judged, found) for judged in answers.judged for found in judged.findings]


def test_cuts_in_an_honest_recovery_lose_nothing(recorded):
    assert second_cuts(recorded) == []


def test_a_disk_that_ignores_flushes_during_recovery_only_is_found(recorded):
    contract = replace(recorded.space.timeline.contract, flush=Honour.IGNORED)
    found = second_cuts(recorded, _durability=Durability(contract, through=False))
    losses = [finding for _, finding in found if finding.verdict is Verdict.LOSSY]
    assert losses
    assert all("a second cut, during the recovery of that state" in f.message for f in losses)
    lost = {lsn for f in losses for s in f.lsns for lsn in range(s.first, s.last + 1)}
    assert lost <= set(range(1, RECORDS + 1))
    # What was found can be kept, and is lost again from what was kept.
    kept = next(judged.again for judged, f in found if f.verdict is Verdict.LOSSY)
    work = Work(recorded.directory.path, recorded.directory.run, "uml", Prune.NOTHING, 1)
    with LocalWorker(work, recorded) as worker:
        (again,) = worker.judge([kept]).judged
    assert any(finding.verdict is Verdict.LOSSY for finding in again.findings)


def test_a_recovery_that_replays_in_the_wrong_order_is_found(ext4, monkeypatch):
    """One that first says that its journal is done with, and then does it."""

    def backwards(*args, **named):
        timeline = timeline_of_record(*args, **named)
        rows = timeline.requests
        order = np.arange(len(rows))
        writes = np.flatnonzero(rows.kind != RequestKind.FLUSH)
        order[writes] = writes[::-1]
        fields = ("offset", "length", "data_offset", "kind")
        swapped = {name: getattr(rows, name)[order] for name in fields}
        return replace(timeline, requests=replace(rows, **swapped))

    monkeypatch.setattr(explore_worker, "timeline_of_record", backwards)
    found = second_cuts(ext4)
    assert any(finding.verdict is Verdict.LOSSY for _, finding in found)


def test_a_writer_that_goes_on_in_the_wrong_place_is_found(ext4, monkeypatch):
    """It takes records for smaller than they are, and writes over old ones."""

    def wrong(plan, parameters, run_id, records, **_):
        whole = going_on(plan, parameters, run_id, records)
        step = whole.find(GoOn)
        assert "record=4096" in step.command
        after = tuple("record=512" if word == "record=4096" else word for word in step.command)
        return plan.going_on(after, records)

    assert lossy(explored(ext4, policies=("durable-only",), budget=Budget(states=40))) == {}
    monkeypatch.setattr(state_judge, "going_on", wrong)
    result = explored(ext4, policies=("durable-only",), after=8, budget=Budget(states=40))
    assert lossy(result)
    message = next(f for f in result.findings if f.verdict is Verdict.LOSSY).examples[0].message
    assert "after recovery the workload went on with record" in message


def test_an_ack_without_a_sync_is_found_by_a_second_cut(ext4, monkeypatch):
    """A clean unmount hides it; a cut once the workload has gone on does not."""

    def early(plan, parameters, run_id, records, **_):
        step = going_on(plan, parameters, run_id, records).find(GoOn)
        after = tuple("sync=none" if word.startswith("sync=") else word for word in step.command)
        return plan.going_on(after, records)

    monkeypatch.setattr(state_judge, "going_on", early)
    result = explored(ext4, policies=("durable-only",), after=8, budget=Budget(states=40))
    assert lossy(result)
    for found in result.findings:
        assert set(found.by_policy) == {"recovery/durable-only"}
        assert "a second cut, once the workload had gone on" in found.examples[0].message


def accounting(recorded: TrialRecording, state: CrashState) -> tuple[tuple[int, bytes], ...]:
    """What an ext4 of one group says is free, as mkfs left it: the block bitmap, and the count
    in the group's descriptor (the kernel's Documentation/filesystems/ext4)."""
    base = recorded.directory.base_image
    argv = [tool("dumpe2fs"), str(base)]
    text = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout
    (block,) = re.findall(r"Block bitmap at (\d+)", text)
    old = base.read_bytes()
    now = bytearray(old)
    for write in recorded.space.image_writes(state):
        data = bytes(write.length) if write.data is None else write.data.tobytes()
        now[write.offset : write.offset + write.length] = data
    bitmap = slice(int(block) * 4096, int(block) * 4096 + 4096)
    assert now[bitmap] != old[bitmap], "the bitmap never changed"
    for field in (4096 + 0x0C, 4096 + 0x2C):  # bg_free_blocks_count_lo, _hi
        now[field : field + 2] = old[field : field + 2]
    return ((bitmap.start, old[bitmap]), (4096, bytes(now[4096:8192])))


def test_blocks_in_use_taken_for_free_are_found_by_going_on(tmp_path):
    """A disk that lost the last writes of a file system's accounts; only life shows it."""
    recorded = recording(
        tmp_path / "trial", "ext4-plain", layout="segments", segment=65536, capacity=1 << 20
    )
    space = recorded.space
    end = int(space.timeline.requests.completed_ns[-1]) + 1
    clean = CrashState(end, tuple(space.volatile(end).tolist()), policy="everything-issued")
    trap = replace(clean, again=Again(accounting(recorded, clean)))
    for after, verdicts in ((0, set()), (32, {Verdict.LOSSY})):
        work = Work(recorded.directory.path, recorded.directory.run, "uml", Prune.BYTES, 1, after)
        with LocalWorker(work, recorded) as worker:
            honest, trapped = worker.judge([clean, trap]).judged
        assert honest.findings == ()
        assert {finding.verdict for finding in trapped.findings} >= verdicts
        assert bool(trapped.findings) == bool(after)
        assert trapped.went_on == bool(after)
