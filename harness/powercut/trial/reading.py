# SPDX-License-Identifier: Apache-2.0
"""Reads what a trial has left; what is missing of it is a finding that lets nothing be SAFE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from powercut.channel.history_file import RecordedHistory
from powercut.disk.pclog import host_failures
from powercut.model.errors import PowercutError
from powercut.model.observation import Observation
from powercut.model.timeline import Timeline
from powercut.model.verdict import EvidenceLevel, Finding, FindingKind, Verdict
from powercut.recording.bound import read_acks, read_disk_log
from powercut.store.trial_dir import TrialDir, TrialRecord
from powercut.trial.observation import observation_of

T = TypeVar("T")


class Gaps:
    """What is missing of a recording's evidence, in the order in which it was missed."""

    def __init__(self, record: TrialRecord) -> None:
        self.findings: list[Finding] = []
        if record.trouble:
            self.add(record.trouble)

    def add(self, *reasons: str) -> None:
        """Each is a finding: INCOMPLETE, INCONCLUSIVE."""
        self.findings += [
            Finding(FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, why) for why in reasons
        ]

    def read(self, read: Callable[[], T]) -> T | None:
        """What `read` returns; None, and a gap, if it cannot be had."""
        try:
            return read()
        except PowercutError as error:
            self.add(str(error))
            return None


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
                f"the disk under test was failed by its host: {why}"
                for why in host_failures(timeline)
            )
        )
    if recorded and not recorded.complete:
        gaps.add("the history of acks was cut off: later ones may be missing")
    if recorded and recorded.history.error:
        gaps.add(f"the workload failed: {recorded.history.error}")
    return WireEvidence(timeline, recorded, observation)
