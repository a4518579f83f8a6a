# SPDX-License-Identifier: Apache-2.0
"""Recordings that no machine has made: of a record and what was promised."""

from powercut.model.timeline import Timeline
from powercut.recording.sealed import SealedTrial, TrialRecording, recording_of
from powercut.store.trial_dir import TrialDir, TrialRecord
from powercut.workload.port import Promises


def recording_made(
    trial: TrialDir, record: TrialRecord, timeline: Timeline, promises: Promises
) -> TrialRecording:
    """As `open_trial` opens it, without a file of it but the base image."""
    sealed = SealedTrial(trial)
    sealed.record, sealed.disk_log, sealed.promises = record, timeline, promises
    sealed.opened = recording_of(sealed)
    return sealed.opened
