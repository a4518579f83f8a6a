# SPDX-License-Identifier: Apache-2.0
"""Judges the recording of a workload that acknowledges by wire and whose bytes nobody recognises.

Its own check says what came back.  There is no exposure analysis, and no bytes that date its acks,
so an ack counts from its receipt: SAFE rests on what was recovered, after the cut and in crash
states (powercut.explore.trial).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from powercut.checkers.environment import check_environment
from powercut.checkers.judge import Checker, run_checkers, without_conviction
from powercut.disk.pclog import host_failures
from powercut.model.acks import AckBasis
from powercut.model.errors import PowercutError
from powercut.model.verdict import Finding, FindingKind, Verdict
from powercut.recording.bound import check_level, read_acks, read_disk_log
from powercut.recording.trial_recording import under_cut
from powercut.rig import commands
from powercut.store.results import AckInstants, TrialResult
from powercut.store.trial_dir import TrialDir, TrialRecord
from powercut.trial.observation import observation_of
from powercut.workload.port import AcksByWire, Promises, Run

T = TypeVar("T")


def judge_wire(directory: TrialDir, record: TrialRecord, workload: AcksByWire) -> TrialResult:
    """The verdict that the recording in `directory` deserves.  Writes nothing.

    Raises DamagedRecording for a recording of another level than its settings make.
    """
    check_level(directory, record)
    gaps: list[Finding] = [_gap(record.trouble)] if record.trouble else []

    def attempt(read: Callable[[], T]) -> T | None:
        try:
            return read()
        except PowercutError as error:
            gaps.append(_gap(str(error)))
            return None

    timeline = attempt(lambda: read_disk_log(directory, record, verify_payloads=True))
    recorded = attempt(lambda: read_acks(directory))
    observation = attempt(lambda: observation_of(directory, record))
    if recorded is not None and not recorded.complete:
        gaps.append(_gap("the history of acks was cut off: later ones may be missing"))
    failed = host_failures(timeline) if timeline is not None else ()
    gaps += [_gap(f"the disk under test was failed by its host: {why}") for why in failed]
    promises: Promises | None = None
    if timeline is not None and recorded is not None:
        run = Run(bytes.fromhex(record.run_id), record.trial.seed)
        seen = under_cut(timeline, record.parameters.cut.kind)
        promises = attempt(lambda: workload.promises_by_wire(run, seen, recorded.history))
    facts, promised = record.guest_facts, commands.promised_facts(record.parameters.machine)
    checkers: dict[str, Checker] = {
        "recording": lambda: gaps,
        "environment": lambda: check_environment(facts, promised),
    }
    if promises is not None:
        gaps += [_gap(why) for why in promises.gaps]
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


def _gap(message: str) -> Finding:
    return Finding(FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, message)
