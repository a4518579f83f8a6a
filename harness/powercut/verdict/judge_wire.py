# SPDX-License-Identifier: Apache-2.0
"""Judges the recording of a workload that acknowledges by wire and whose bytes nobody recognises.

Its own check says what came back.  There is no exposure analysis, and no bytes that date its acks,
so an ack counts from its receipt: SAFE rests on what was recovered, after the cut and in crash
states (powercut.explore.trial).  No workload that is shipped is one; whatever joins by its row in
powercut.scenario.workloads is (docs/adding-a-workload.md).
"""

from __future__ import annotations

from typing import Final

from powercut.checkers.environment import check_environment
from powercut.checkers.judge import Checker, run_checkers, without_conviction
from powercut.disk.pclog import host_failures
from powercut.model.acks import AckBasis
from powercut.recording.bound import check_level
from powercut.recording.trial_recording import under_cut
from powercut.rig import commands
from powercut.store.results import AckInstants, TrialResult
from powercut.store.trial_dir import TrialDir, TrialRecord
from powercut.verdict.reading import Gaps, read_wire
from powercut.workload.port import AcksByWire, Promises, Run


def judge_wire(directory: TrialDir, record: TrialRecord, workload: AcksByWire) -> TrialResult:
    """The verdict that the recording in `directory` deserves.  Writes nothing.

    Raises DamagedRecording for a recording of another level than its settings make.
    """
    check_level(directory, record)
    gaps = Gaps(record, directory)
    read = read_wire(directory, record, gaps)
    timeline, recorded, observation = read.timeline, read.recorded, read.observation
    failed = host_failures(timeline) if timeline is not None else ()
    if timeline is not None and not timeline.complete:
        gaps.add("the disk log was not closed properly: its end is missing")
    promises: Promises | None = None
    if timeline is not None and recorded is not None:
        run = Run(bytes.fromhex(record.run_id), record.trial.seed)
        seen = under_cut(timeline, record.parameters.cut.kind)
        promises = gaps.read(lambda: workload.promises_by_wire(run, seen, recorded.history))
    facts, promised = record.guest_facts, commands.promised_of_disks(record.parameters)
    checkers: dict[str, Checker] = {
        "recording": lambda: gaps.findings,
        "environment": lambda: check_environment(facts, promised),
    }
    if promises is not None:
        gaps.add(*promises.gaps)
        if observation is not None:
            known, back = promises, observation
            checkers["claims"] = lambda: list(known.check(known.claims_received(), back))
    judgement = run_checkers(checkers)
    if failed:
        judgement = without_conviction(judgement, f"its host failed the disk: {'; '.join(failed)}")
    return TrialResult.judged(
        record.trial,
        verdict=judgement.verdict,
        acked=promises.acked if promises is not None else 0,
        attempted=promises.attempted if promises is not None else 0,
        findings=judgement.findings,
        in_flight=timeline.in_flight if timeline is not None else None,
        acks=_BY_RECEIPT if promises is not None else None,
        latency=recorded.latency if recorded is not None else None,
        timings_s=record.timings_s,
        result_directory=directory.relative,
        binding=directory.read_binding().name,
    )


_BY_RECEIPT: Final = AckInstants(
    basis=AckBasis.RECEIPT,
    window_us=None,
    usual_window_us=None,
    gained_us=0.0,
    shortest_sync_us=None,
    reason="no bytes are recognised that would date them",
)
