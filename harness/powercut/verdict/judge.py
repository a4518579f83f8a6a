# SPDX-License-Identifier: Apache-2.0
"""The verdict on one recording, from what is on disk and from nothing else.

`verdict_of` is the only way to one: a live run, `powercut verify`, bundles, certificates and hosts
of a cluster call it on the same files; so they cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from powercut.channel.history_file import RecordedHistory
from powercut.checkers.acks import check_acks
from powercut.checkers.agreement import check_agreement, explain_losses
from powercut.checkers.environment import check_environment
from powercut.checkers.exposure import check_exposure
from powercut.checkers.judge import Checker, run_checkers, without_conviction
from powercut.checkers.live import attempted_at_least, check_live
from powercut.checkers.reading import reading_of
from powercut.checkers.restarts import check_restarts
from powercut.checkers.wal import check_wal, required_after
from powercut.crash.evidence import Evidence, gather
from powercut.crash.exposure import exposure
from powercut.crash.proof import prove_acks
from powercut.crash.recognised import unrecognised
from powercut.crash.survival import survival
from powercut.disk.pclog import host_failures
from powercut.model.acks import AckProof
from powercut.model.errors import PowercutError
from powercut.model.events import Phase
from powercut.model.exposure import ExposureReport
from powercut.model.observation import Observation
from powercut.model.timeline import Timeline
from powercut.model.verdict import EvidenceLevel, Finding, FindingKind, Verdict
from powercut.recording.bound import check_level, read_disk_log
from powercut.recording.trial_recording import under_cut
from powercut.rig import commands
from powercut.store.results import AckInstants, Exposure, TrialResult
from powercut.store.trial_dir import TrialDir, TrialRecord
from powercut.store.trial_result import lost_lsns
from powercut.verdict.disk_shares import disk_shares
from powercut.verdict.judge_wire import judge_wire
from powercut.verdict.lines import judge_lines
from powercut.verdict.loss_story import story_of
from powercut.verdict.reading import Gaps, read_wire
from powercut.verdict.states import CrashStates, with_states
from powercut.verdict.untested import untested_of
from powercut.wal.layout import WalLayout
from powercut.workload.port import AcksByLines, AcksByWire
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
