# SPDX-License-Identifier: Apache-2.0
"""The verdict on one recording, from what is on disk and from nothing else.

`verdict_of` is the only way to one: a live run, `powercut verify`, bundles, certificates and hosts
of a cluster call it on the same files; so they cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np

from powercut.channel.history_file import RecordedHistory
from powercut.checkers.acks import check_acks
from powercut.checkers.agreement import check_agreement, explain_losses
from powercut.checkers.exposure import check_exposure
from powercut.checkers.judge import Checker, run_checkers, without_conviction
from powercut.checkers.reading import reading_of
from powercut.checkers.wal import check_restarts, check_wal, required_after
from powercut.crash.evidence import Evidence, gather
from powercut.crash.exposure import exposure
from powercut.crash.proof import prove_acks, unrecognised
from powercut.crash.survival import survival
from powercut.disk.pclog import host_failures
from powercut.model.errors import PowercutError
from powercut.model.events import Phase
from powercut.model.exposure import ExposureReport
from powercut.model.history import History
from powercut.model.observation import Observation
from powercut.model.operations import AckBasis, AckProof
from powercut.model.timeline import RequestKind, Timeline
from powercut.model.units import NEVER
from powercut.model.verdict import EvidenceLevel, Finding, FindingKind, Verdict
from powercut.recording.bound import check_level, read_disk_log
from powercut.recording.trial_recording import under_cut
from powercut.rig import commands
from powercut.store.results import AckInstants, Exposure, TrialResult
from powercut.store.trial_dir import TrialDir, TrialRecord
from powercut.store.trial_result import DiskShare, lost_lsns
from powercut.verdict.lines import judge_lines
from powercut.verdict.loss_story import story_of
from powercut.verdict.reading import Gaps, read_wire
from powercut.verdict.states import CrashStates, with_states
from powercut.verdict.untested import untested_of
from powercut.wal.layout import SlotState, WalLayout
from powercut.workload.port import AcksByLines, AcksByWire, Promises, Run
from powercut.workload.table import is_recognised, workload_of
from powercut.workload.wal.commands import wal_layout


@dataclass(frozen=True)
class _Loaded:
    """The evidence as far as it can be read; None for what cannot, with a finding why."""

    record: TrialRecord
    timeline: Timeline | None
    recorded: RecordedHistory | None
    observation: Observation | None
    layout: WalLayout
    gaps: tuple[Finding, ...]


def verdict_of(
    directory: TrialDir,
    states: CrashStates,
    notify: Callable[[Phase], None] = lambda _: None,
) -> TrialResult:
    """The verdict that the recording in `directory` deserves, with what its crash states say.

    `notify` hears what it is busy with.  Raises DamagedRecording as `judge_recording` does.
    """
    notify(Phase.JUDGE)
    result = judge_recording(directory)
    notify(Phase.EXPLORE)
    return with_states(directory, result, states)


def judge_recording(directory: TrialDir) -> TrialResult:
    """What the recording in `directory` says without its crash states.  Writes nothing.

    Raises DamagedRecording if even trial.json cannot be read, or says another level of evidence
    than its settings make; all other damage is a finding and makes the verdict INCONCLUSIVE at
    best.
    """
    record = directory.read_record()
    result = _judged(directory, record)
    if not record.parameters.disk.also:
        return result
    with suppress(PowercutError):  # a log that cannot be read is a finding already
        timeline = read_disk_log(directory, record, verify_payloads=False)
        return result.model_copy(update={"disks": disk_shares(timeline)})
    return result


def _judged(directory: TrialDir, record: TrialRecord) -> TrialResult:
    workload = workload_of(record.parameters)
    if isinstance(workload, AcksByLines):
        return judge_lines(directory, record, workload)
    if not is_recognised(record.parameters):
        assert isinstance(workload, AcksByWire), "each workload acknowledges in one way"
        return judge_wire(directory, record, workload)
    check_level(directory, record)
    loaded = _load(directory, record)
    if record.evidence_level is EvidenceLevel.LIVE_ONLY:
        return _judge_live(directory, loaded)
    report: ExposureReport | None = None
    attempted, recognised = 0, True
    proof: AckProof | None = None
    checkers: dict[str, Checker] = {"recording": lambda: list(loaded.gaps)}
    facts = loaded.record.guest_facts
    promised = commands.promised_of_disks(loaded.record.parameters)
    checkers["environment"] = lambda: check_environment(facts, promised)
    history = loaded.recorded.history if loaded.recorded else None
    evidence = _evidence(loaded, checkers)
    if evidence is not None:
        report = exposure(evidence)
        proof = prove_acks(evidence, report)
        complete = evidence.timeline.complete
        checkers["acks"] = lambda: check_acks(proof)
        # What reached the disk was attempted, even if the cut swallowed the message.
        attempted = max(evidence.history.attempted, evidence.claims.attempted)
        checkers["restarts"] = lambda: check_restarts(evidence.history, loaded.layout, attempted)
        recognised = _recognised(evidence, loaded.observation, attempted)
        checkers["exposure"] = lambda: check_exposure(
            report, timeline_complete=complete, recognised=recognised
        )
        if loaded.observation:
            checkers |= _live_checkers(evidence, loaded.observation, attempted)
    judgement = run_checkers(checkers)
    if loaded.timeline and (failed := host_failures(loaded.timeline)):
        judgement = without_conviction(judgement, f"its host failed the disk: {'; '.join(failed)}")
    loss = None
    if evidence is not None and report is not None and recognised:
        loss = story_of(evidence, report, lost_lsns(judgement.findings))
    return TrialResult.judged(
        loaded.record.trial,
        verdict=judgement.verdict,
        acked=history.acked if history else 0,
        attempted=attempted,
        findings=judgement.findings,
        exposure=_exposure(report) if report is not None and recognised else None,
        in_flight=loaded.timeline.in_flight if loaded.timeline else None,
        acks=AckInstants.of(proof) if proof is not None else None,
        latency=loaded.recorded.latency if loaded.recorded else None,
        timings_s=loaded.record.timings_s,
        result_directory=directory.relative,
        binding=directory.read_binding().name,
        loss=loss,
        untested=tuple(untested_of(loaded.record)),
    )


def _judge_live(directory: TrialDir, loaded: _Loaded) -> TrialResult:
    """What the cut itself shows: SURVIVED at best."""
    history = loaded.recorded.history if loaded.recorded else None
    observation, layout = loaded.observation, loaded.layout
    checkers: dict[str, Checker] = {"recording": lambda: list(loaded.gaps)}
    attempted = history.attempted if history else 0
    if history is not None and observation is not None:
        attempted = attempted_at_least(history, observation)
        checkers["live"] = lambda: check_live(history, observation, layout)
    judgement = run_checkers(checkers)
    return TrialResult.judged(
        loaded.record.trial,
        verdict=max(judgement.verdict, Verdict.SURVIVED),
        evidence_level=EvidenceLevel.LIVE_ONLY,
        acked=history.acked if history else 0,
        attempted=attempted,
        findings=judgement.findings,
        latency=loaded.recorded.latency if loaded.recorded else None,
        timings_s=loaded.record.timings_s,
        result_directory=directory.relative,
        binding=directory.read_binding().name,
    )


def _evidence(loaded: _Loaded, checkers: dict[str, Checker]) -> Evidence | None:
    """Timeline and history together; None, and a finding why, if they cannot be had."""
    if loaded.timeline is None or loaded.recorded is None:
        return None
    try:
        return gather(
            under_cut(loaded.timeline, loaded.record.parameters.cut.kind),
            loaded.recorded.history,
            bytes.fromhex(loaded.record.run_id),
            loaded.layout,
            deep=True,
        )
    except PowercutError as error:
        gap = Finding(FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, str(error))
        checkers["evidence"] = lambda: [gap]
        return None


def _load(directory: TrialDir, record: TrialRecord) -> _Loaded:
    """Reads what there is."""
    gaps = Gaps(record, directory)
    read = read_wire(directory, record, gaps)
    layout = wal_layout(record.parameters)
    return _Loaded(
        record, read.timeline, read.recorded, read.observation, layout, tuple(gaps.findings)
    )


def _live_checkers(
    evidence: Evidence, observation: Observation, attempted: int
) -> dict[str, Checker]:
    """What came back, against the claims and against what the recording predicts."""
    history, layout = evidence.history, evidence.layout
    predicted = survival(evidence)

    def check_claims() -> list[Finding]:
        findings = check_wal(history, observation, layout, attempted)
        return explain_losses(findings, predicted, layout)

    def check_prediction() -> list[Finding]:
        required = required_after(history, layout, attempted)
        reading = reading_of(required, attempted, observation, layout)
        return check_agreement(reading, predicted, layout, unrecognised(evidence, required))

    checkers: dict[str, Checker] = {"wal": check_claims}
    if observation.recovered:
        checkers["agreement"] = check_prediction
    return checkers


def _recognised(evidence: Evidence, observation: Observation | None, attempted: int) -> bool:
    """Whether the scan knows the bytes of this workload's records when it sees them.

    It does not if a record came back of which no write shows all the bytes.  If it is not known
    what came back, some record must have been seen.
    """
    if observation is None or not observation.recovered or not observation.complete:
        return bool(len(evidence.runs))
    layout = evidence.layout
    required = required_after(evidence.history, layout, attempted)
    try:
        reading = reading_of(required, attempted, observation, layout)
    except ValueError:  # extents that no reader can have seen: the other checkers say so
        return True
    back = {lsn for span in reading.intact for lsn in span}
    return not any(lsn in back for span in unrecognised(evidence, required) for lsn in span)


def _exposure(report: ExposureReport) -> Exposure:
    return Exposure(
        records=int(report.exposed.sum()),
        never_durable=sum(len(span) for span in report.never_durable_lsns),
        longest_ms=round(report.longest_ns / 1e6, 3),
        lsns=report.exposed_lsns,
    )


# What each of several disks was asked before the cut: which of them lied, or was never flushed.


def disk_shares(timeline: Timeline) -> tuple[DiskShare, ...]:
    """A share for each of several disks; empty if there is one alone."""
    requests = timeline.requests
    end = int(NEVER) if timeline.cut is None else int(timeline.cut.at)
    done = requests.completed_ns < end
    flush = requests.kind == RequestKind.FLUSH
    shares = []
    for disk in timeline.disks:
        its = done & (requests.offset >= disk.begin) & (requests.offset < disk.end)
        asked = np.flatnonzero(its & (flush | requests.fua)).tolist()
        shares.append(
            DiskShare(
                name=disk.name,
                writes=int((its & ~flush).sum()),
                flushes=len(asked),
                ignored=sum(timeline.ignored(index) for index in asked),
            )
        )
    return tuple(shares)


# The checker of a trial that left no disk log: claims against what came back, and nothing else.
#
# What it finds is what powercut.checkers.wal finds, under two rules, since a guest's writes and its
# messages travel separately and no log says what reached the disk:
#
# 1. What came back was attempted, even if the cut swallowed the message.  So of a record that
#    never attempted nothing can be found.
# 2. A log that goes round gives a record up with the attempt that takes its slot, heard of or not.
#    Once more than half of its slots were attempted, nothing is required of it for certain:
#    INCOMPLETE, INCONCLUSIVE, and no loss.

_OF_THIS_LOG = (SlotState.INTACT, SlotState.TORN, SlotState.MISDIRECTED)
"""States of a slot whose LSN is that of a record of this run."""


def attempted_at_least(history: History, observation: Observation) -> int:
    """The highest LSN that was attempted, by what was heard and what came back."""
    seen = (e.lsn + e.count - 1 for e in observation.extents if e.lsn and e.state in _OF_THIS_LOG)
    return max(history.attempted, *seen, 0)


def check_live(history: History, observation: Observation, layout: WalLayout) -> list[Finding]:
    """What recovery gave back after a cut, against all that was claimed before it."""
    attempted = attempted_at_least(history, observation)
    if layout.wraps and 2 * attempted > layout.slots:
        return [
            Finding(
                FindingKind.INCOMPLETE,
                Verdict.INCONCLUSIVE,
                f"{attempted:,} records were attempted in a log of {layout.slots:,} slots that "
                "goes round: without a disk log nothing shows which of them it has given up; raise "
                "workload.capacity, or cut earlier",
            )
        ]
    return check_wal(history, observation, layout, attempted)


# Judges the recording of a workload that acknowledges by wire and whose bytes nobody recognises.
#
# Its own check says what came back.  There is no exposure analysis, and no bytes that date its
# acks, so an ack counts from its receipt: SAFE rests on what was recovered, after the cut and in
# crash states (powercut.explore.trial).  No workload that is shipped is one; whatever joins by its
# row in powercut.scenario.workloads is (docs/adding-a-workload.md).


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


# The environment checker: does the guest see what the configuration promises?
#
# A preset that did not take effect (a disk that says "write through" where "write back" was asked
# for) means that another configuration was tested: NOT_AS_CONFIGURED, INCONCLUSIVE.  A fact that
# the guest did not report is not a fact.


def check_environment(facts: Mapping[str, str], promised: Mapping[str, str]) -> list[Finding]:
    """One finding for each promised fact (`write_cache`, `fua`, ...) that is not as promised."""
    findings = []
    for name, expected in promised.items():
        seen = facts.get(name)
        if seen is not None and seen.strip() == expected:
            continue
        what = "did not say" if seen is None else f"sees {seen.strip()!r}"
        findings.append(
            Finding(
                FindingKind.NOT_AS_CONFIGURED,
                Verdict.INCONCLUSIVE,
                f"{name}: {expected!r} was promised, the guest {what}",
                detail={"fact": name, "promised": expected, "seen": seen},
            )
        )
    return findings
