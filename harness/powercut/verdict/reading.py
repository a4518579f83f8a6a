# SPDX-License-Identifier: Apache-2.0
"""Reads what a trial has left; what is missing of it is a finding that lets nothing be SAFE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from powercut.channel.history_file import RecordedHistory
from powercut.disk.pclog import host_failures
from powercut.disk.pclog_format import log_path
from powercut.model.errors import DamagedRecording, PowercutError
from powercut.model.observation import Observation
from powercut.model.timeline import Timeline
from powercut.model.verdict import EvidenceLevel, Finding, FindingKind, Verdict
from powercut.recording.bound import read_acks, read_disk_log, read_recovery_log
from powercut.store.packed import has_evidence
from powercut.store.trial_dir import TrialDir, TrialRecord

T = TypeVar("T")


class Gaps:
    """What is missing of a recording's evidence, in the order in which it was missed.

    Of a trial that ended in trouble before anything was recorded that is the trouble alone.
    """

    def __init__(self, record: TrialRecord, directory: TrialDir) -> None:
        self.findings: list[Finding] = []
        self._recorded = not record.trouble or _has_any(directory)
        if record.trouble:
            self.add(record.trouble)

    def add(self, *reasons: str) -> None:
        """Each is a finding: INCOMPLETE, INCONCLUSIVE."""
        self.findings += [
            Finding(FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, why) for why in reasons
        ]

    def read(self, read: Callable[[], T]) -> T | None:
        """What `read` returns; None, and a gap, if it cannot be had."""
        if not self._recorded:
            return None
        try:
            return read()
        except PowercutError as error:
            self.add(str(error))
            return None


def _has_any(directory: TrialDir) -> bool:
    """Whether anything is there of what a run leaves behind; what cannot be read is, too."""
    files = (log_path(directory.disk_log), directory.history, directory.lines)
    try:
        return any(has_evidence(file) for file in files)
    except PowercutError:
        return True


@dataclass(frozen=True)
class WireEvidence:
    """What there is of a workload that acknowledges by wire; None for what cannot be read.

    `timeline` is also None if no disk was to be recorded.
    """

    timeline: Timeline | None
    recorded: RecordedHistory | None
    observation: Observation | None


def read_wire(directory: TrialDir, record: TrialRecord, gaps: Gaps) -> WireEvidence:
    """Reads what there is, and adds to `gaps` what is not."""
    timeline = None
    if record.evidence_level is EvidenceLevel.RECORDED:
        timeline = gaps.read(lambda: read_disk_log(directory, record, verify_payloads=True))
    recorded = gaps.read(lambda: read_acks(directory))
    observation = gaps.read(lambda: observation_of(directory, record))
    if timeline:
        gaps.add(
            *(
                f"I/O error on the host, below the disk under test: {why}"
                for why in host_failures(timeline)
            )
        )
    if recorded and not recorded.complete:
        gaps.add("the history of acks was cut off: later ones may be missing")
    if recorded and recorded.history.error:
        gaps.add(f"the workload failed: {recorded.history.error}")
    return WireEvidence(timeline, recorded, observation)


# What came back after a cut, and whether its disk was there for it, as far as that is seen.


def observation_of(directory: TrialDir, record: TrialRecord) -> Observation:
    """What came back.

    Raises DamagedRecording if the disk failed during recovery: what a system makes of a disk
    that fails its requests says nothing about what was on it.
    """
    observation = directory.read_observation()
    if record.evidence_level is EvidenceLevel.LIVE_ONLY:
        return observation
    during = read_recovery_log(directory, record, verify_payloads=False)
    reasons = [*host_failures(during)]
    reasons += [] if during.complete else ["its log was not closed properly"]
    if reasons:
        raise DamagedRecording(f"the disk failed during recovery: {'; '.join(reasons)}")
    return observation
