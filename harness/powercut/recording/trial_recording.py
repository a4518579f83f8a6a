# SPDX-License-Identifier: Apache-2.0
"""A trial opened to look at its crash states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from powercut.disk.pclog import host_failures
from powercut.model.errors import DamagedRecording
from powercut.model.history import History
from powercut.model.machine import BackingImage
from powercut.model.positive import PositiveControl
from powercut.recording.disk import DiskRecording, RecordedSystem
from powercut.recording.sealed import SealedTrial, doubts_of, under_cut
from powercut.recover.plan import RecoveryPlan
from powercut.rig import commands
from powercut.scenario.settings import Parameters
from powercut.store.trial_dir import TrialDir, TrialRecord
from powercut.workload.port import AcksByLines, Recognised


@dataclass(frozen=True, kw_only=True)
class TrialRecording(DiskRecording):
    """The recording of a trial: what was run, and how its records lie, is known."""

    sealed: SealedTrial
    plan: RecoveryPlan
    positive: PositiveControl | None = None

    @property
    def record(self) -> TrialRecord:
        return self.sealed.record

    @property
    def parameters(self) -> Parameters:
        return self.sealed.parameters

    def tearing_at(self, atomic_unit: int) -> TrialRecording:
        """The same on a disk that promises to write aligned blocks of so many bytes whole.

        Nothing of the recording depends on it but which crash states are legal.
        """
        contract = replace(self.timeline.contract, atomic_unit=atomic_unit)
        timeline = replace(self.timeline, contract=contract)
        if self.known_promises is not None:
            return replace(self, timeline=timeline)
        return replace(self, timeline=timeline, known_evidence=self.evidence)


def open_trial(trial: TrialDir) -> TrialRecording:
    """Loads the recording in `trial`.

    Raises DamagedRecording if disk log, history or trial.json cannot be read at all.
    """
    return SealedTrial(trial).opened


def opened(sealed: SealedTrial) -> TrialRecording:
    """The same of a trial whose files may have been read already."""
    record, path, log = sealed.record, sealed.directory.path, sealed.disk_log
    if failed := host_failures(log):
        raise DamagedRecording(
            f"{path}: I/O error on the host, below the disk under test "
            f"({'; '.join(failed)}): "
            "nothing follows from its crash states",
            hint="make room on the host, or look at its disk, and record again",
        )
    gaps = [record.trouble] if record.trouble else []
    if not log.complete:
        gaps.append("the disk log was not closed: later requests are missing")
    if isinstance(sealed.workload, AcksByLines):
        return _of_lines(sealed, gaps)
    recorded = sealed.acks
    if not recorded.complete:
        gaps.append("the history of acks was cut off: later ones may be missing")
    if recorded.history.error:
        gaps.append(f"the workload failed: {recorded.history.error}")
    _require_images(sealed)
    return recording_of(sealed, gaps)


def _of_lines(sealed: SealedTrial, gaps: list[str]) -> TrialRecording:
    _require_images(sealed)
    record, path, log = sealed.record, sealed.directory.path, sealed.disk_log
    if record.cut_ns is None or log.cut is None or int(log.cut.at) != record.cut_ns:
        raise DamagedRecording(f"{path}: the disk log is not that of this cut")
    if doubts := doubts_of(log, sealed.lines, record.damage):
        raise DamagedRecording(
            f"{path}: {'; '.join(doubts)}: nothing follows from its crash states",
            hint="look after the host, and record again",
        )
    return recording_of(sealed, [*gaps, *sealed.promises.gaps])


def recording_of(sealed: SealedTrial, gaps: Sequence[str] = ()) -> TrialRecording:
    """What was read, once nothing of it is in doubt; `gaps` is what is missing."""
    record, directory = sealed.record, sealed.directory
    run_id = bytes.fromhex(record.run_id)
    plan = commands.recovery_plan(record.parameters, run_id, record.trial.seed)
    recording = TrialRecording(
        directory=directory,
        title=f"{record.scenario}, {record.cell}, trial {record.trial.number}",
        base=directory.base_image,
        filesystem=plan.filesystem,
        timeline=under_cut(sealed.disk_log, record.parameters.cut.kind),
        history=History.nothing(),
        run_id=run_id,
        sealed=sealed,
        layout=None,
        plan=plan,
        image_format=record.parameters.machine.format,
        system=RecordedSystem(record.parameters, record.versions, record.program_files),
        gaps=tuple(gaps),
    )
    promises, control = sealed.promises, sealed.positive
    if isinstance(promises, Recognised):
        evidence = promises.evidence
        return replace(
            recording,
            timeline=evidence.timeline,
            history=evidence.history,
            layout=evidence.layout,
            known_evidence=evidence,
        )
    blind = "" if control is None or control.passed else control.message
    return replace(recording, known_promises=promises, blind=blind, positive=control)


def _require_images(sealed: SealedTrial) -> None:
    """Raises DamagedRecording unless the disk at power-on is there, with what it lies over."""
    directory = sealed.directory
    if not directory.base_image.is_file():
        raise DamagedRecording(f"{directory.base_image}: the disk at power-on is missing")
    overlay = sealed.parameters.machine.backing_image is not BackingImage.NONE
    if overlay and not directory.sealed_digest(directory.backing_image.name):
        raise DamagedRecording(f"{directory.backing_image}: what the image lies over is not sealed")
