# SPDX-License-Identifier: Apache-2.0
"""What came back after a cut, and whether its disk was there for it, as far as that is seen."""

from __future__ import annotations

from powercut.disk.pclog import host_failures
from powercut.model.errors import DamagedRecording
from powercut.model.observation import Observation
from powercut.model.verdict import EvidenceLevel
from powercut.recording.bound import read_recovery_log
from powercut.store.trial_dir import TrialDir, TrialRecord


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
