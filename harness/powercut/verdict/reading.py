# SPDX-License-Identifier: Apache-2.0
"""Reads what a trial has left; what is missing of it is a finding that lets nothing be SAFE."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from powercut.disk.pclog import host_failures
from powercut.disk.pclog_format import log_path
from powercut.model.errors import DamagedRecording, PowercutError
from powercut.model.observation import Observation
from powercut.model.verdict import Finding
from powercut.recording.sealed import SealedTrial
from powercut.store.packed import has_evidence
from powercut.store.trial_dir import TrialDir

T = TypeVar("T")


class Gaps:
    """What is missing of a recording's evidence, in the order in which it was missed.

    Of a trial that ended in trouble before anything was recorded that is the trouble alone.
    """

    def __init__(self, sealed: SealedTrial) -> None:
        record = sealed.record
        self.findings: list[Finding] = []
        self._recorded = not record.trouble or _has_any(sealed.directory)
        if record.trouble:
            self.add(record.trouble)

    def add(self, *reasons: str) -> None:
        """Each is a finding: INCOMPLETE, INCONCLUSIVE."""
        self.findings += [Finding.unknown(why) for why in reasons]

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


def observation_of(sealed: SealedTrial) -> Observation:
    """What came back after the cut.

    Raises DamagedRecording if the disk failed during recovery, as far as that is seen: what a
    system makes of a disk that fails its requests says nothing about what was on it.
    """
    observation = sealed.observation
    if sealed.is_live:
        return observation
    during = sealed.recovery_log
    reasons = [*host_failures(during)]
    reasons += [] if during.complete else ["its log was not closed properly"]
    if reasons:
        raise DamagedRecording(f"the disk failed during recovery: {'; '.join(reasons)}")
    return observation
