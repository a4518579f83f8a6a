# SPDX-License-Identifier: Apache-2.0
"""Whole runs without a guest: a real capture disk, records written to it by hand, a real history.

Each trial writes `RECORDS` records of a raw log, flushes after each and acknowledges it; then its
disk loses power and is read.  On a disk that ignores flushes nothing survives.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from nbd_client import NbdClient
from patience import AMPLE_S

from powercut.campaign.assemble import cell_results
from powercut.channel import wire
from powercut.channel.history_file import HistoryWriter
from powercut.channel.wire import Message, MessageType
from powercut.disk.capture import CaptureDisk
from powercut.model.contract import CutPolicy
from powercut.model.observation import Extent, Observation
from powercut.recording.sealed import SealedTrial
from powercut.rig import commands
from powercut.rig.commands import run_id_of
from powercut.scenario.load import expand, parse_scenario
from powercut.scenario.plan import Cell, Trial
from powercut.store.layout import ResultDir
from powercut.store.results import RunResult
from powercut.store.trial_dir import TrialDir, TrialRecord, new_recording, text_digest
from powercut.store.trial_result import TrialResult
from powercut.verdict.judge import judge_recording
from powercut.wal.layout import SlotState
from powercut.wal.record import record_bytes

RECORDS = 12
SIZE = 2 << 20
RECORD = 4096
TEXT = """powercut: 1
name: by-hand
disk: {size: 2MiB}
filesystem: {type: raw}
workload: {layout: raw, record: 4096, align: 4096, capacity: 256KiB, direct: true}
cut: {trigger: {acks: 12}}
controls: none
trials: 2
cells:
  - {name: honest}
  - {name: lying, disk.flush: ignored, expect: lossy}
"""


def make_run(
    results: Path,
    *,
    seed: int = 1,
    early: bool = False,
) -> ResultDir:
    """Records and judges every trial of `TEXT`, as `powercut run` does.

    With `early` records are acknowledged before they are flushed.
    """
    scenario = parse_scenario(TEXT, Path("by-hand.yaml"))
    plan = expand(scenario, seed=seed)
    run = ResultDir.create(results, plan.scenario, seed)
    run.write_scenario(TEXT)
    selection: dict[str, Any] = {"only": [], "trials": None, "aim": None}
    run.write_environment({"seed": seed, "started": "2026-11-21T00:00:00", "selection": selection})
    trials: dict[str, list[TrialResult]] = {}
    for cell in plan.cells:
        for trial in cell.trials:
            place = record(run, cell, trial, early=early)
            result = judge_recording(SealedTrial(place))
            place.write_verdict(result)
            trials.setdefault(cell.name, []).append(result)
    run.write_verdict(
        RunResult.of(
            powercut="0",
            scenario=plan.scenario,
            description="",
            scenario_file="by-hand.yaml",
            seed=seed,
            started="2026-11-21T00:00:00",
            seconds=1.0,
            cells=cell_results(plan, trials, {}, run),
        )
    )
    return run


def record(run: ResultDir, cell: Cell, trial: Trial, *, early: bool) -> TrialDir:
    """One sealed recording."""
    place = run.trial(cell.name, trial.number)
    place.base_image.write_bytes(bytes(SIZE))
    run_id = run_id_of(trial.seed)
    told = TrialRecord(
        powercut="0",
        scenario="by-hand",
        cell=cell.name,
        parameters=cell.parameters,
        trial=trial,
        run_id=run_id.hex(),
        scenario_sha256=text_digest(TEXT.encode()),
        recording=new_recording(),
        guest_facts=commands.promised_facts(cell.parameters.machine),
    )
    place.write_record(told)
    binding = place.read_binding()
    config = commands.capture_config(
        cell.parameters, binding, base=place.base_image, log=place.disk_log, sockets=None
    )
    with CaptureDisk(config) as disk, HistoryWriter(place.history, binding.digest) as history:
        with NbdClient(disk.socket) as client:
            for lsn in range(1, RECORDS + 1):
                say(history, MessageType.ATTEMPT, lsn)
                client.write((lsn - 1) * RECORD, wal_record(run_id, lsn))
                if early:
                    say(history, MessageType.ACK, lsn)
                client.flush()
                if not early:
                    say(history, MessageType.ACK, lsn)
        disk.cut(CutPolicy.DROP, trial.cut_seed, place.recovery_log, timeout_s=AMPLE_S)
        history.append(time.monotonic_ns(), b"")
        disk.snapshot(place.path / ".medium")
        medium = (place.path / ".medium").read_bytes()
    (place.path / ".medium").unlink()
    there = bool(medium.strip(b"\0"))
    extent = Extent(0, RECORDS, SlotState.INTACT, 1) if there else None
    rest = Extent(RECORDS * there, 64 - RECORDS * there, SlotState.ABSENT, 0)
    place.write_observation(Observation((extent, rest) if extent else (rest,)))
    place.seal_recording()
    return place


def wal_record(run_id: bytes, lsn: int) -> bytes:
    """A record, as the workload writes it."""
    return record_bytes(
        run_id,
        0,
        lsn,
        prev_lsn=lsn - 1,
        generation=0,
        position=(lsn - 1) * RECORD,
        record_size=RECORD,
    )


def say(history: HistoryWriter, kind: MessageType, lsn: int) -> None:
    """A claim of the workload, received now, and its answer to a ping."""
    now = time.monotonic_ns()
    history.append(now, wire.encode(Message(kind, lsn=lsn, guest_ns=now)))
    asked = time.monotonic_ns()
    pong = Message(MessageType.PONG, value=asked, guest_ns=time.monotonic_ns())
    history.append(time.monotonic_ns(), wire.encode(pong))
