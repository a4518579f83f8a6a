# SPDX-License-Identifier: Apache-2.0
"""The recording of a trial, under one rule.

The rule for kinds of cut: one that leaves the power on takes no volatile cache, so what
the disk had completed is as good as durable.  Neither a crash of the guest nor a kill of
the hypervisor can therefore convict a disk that lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from powercut.crash.evidence import Evidence, gather
from powercut.disk.pclog import host_failures
from powercut.model.contract import CutKind
from powercut.model.errors import DamagedRecording
from powercut.model.history import History
from powercut.model.machine import BackingImage
from powercut.model.positive import PositiveControl
from powercut.model.timeline import Timeline
from powercut.recording.bound import doubts_of, read_acks, read_disk_log, read_lines
from powercut.recording.open_recording import RecordedSystem, Recording
from powercut.recording.positive import positive_of
from powercut.recover.plan import RecoveryPlan
from powercut.rig import commands
from powercut.scenario.settings import Parameters
from powercut.store.trial_dir import TrialDir, TrialRecord
from powercut.workload.port import AcksByLines, AcksByWire, Promises, Run
from powercut.workload.table import is_recognised, workload_of
from powercut.workload.wal.commands import wal_layout


def under_cut(timeline: Timeline, kind: CutKind) -> Timeline:
    """The timeline under the contract that counts for a cut of `kind`."""
    if kind is CutKind.POWER_LOSS:
        return timeline
    return replace(timeline, contract=replace(timeline.contract, volatile_cache=False))


@dataclass(frozen=True, kw_only=True)
class TrialRecording(Recording):
    """The recording of a trial: what was run, and how its records lie, is known."""

    record: TrialRecord
    plan: RecoveryPlan
    positive: PositiveControl | None = None

    @classmethod
    def of(
        cls, directory: TrialDir, record: TrialRecord, evidence: Evidence, gaps: Sequence[str] = ()
    ) -> TrialRecording:
        """The recording in `directory` that `record` and `evidence` were read from."""
        recording = cls._of(directory, record, evidence.timeline, evidence.history, gaps)
        layout = wal_layout(record.parameters)
        return replace(recording, layout=layout, known_evidence=evidence)

    @classmethod
    def of_promises(
        cls,
        directory: TrialDir,
        record: TrialRecord,
        timeline: Timeline,
        promises: Promises,
        gaps: Sequence[str] = (),
    ) -> TrialRecording:
        """The recording of a program in `directory`."""
        recording = cls._of(directory, record, timeline, History.nothing(), gaps)
        return replace(recording, known_promises=promises)

    @classmethod
    def _of(
        cls,
        directory: TrialDir,
        record: TrialRecord,
        timeline: Timeline,
        history: History,
        gaps: Sequence[str],
    ) -> TrialRecording:
        run_id = bytes.fromhex(record.run_id)
        plan = commands.recovery_plan(record.parameters, run_id, record.trial.seed)
        return cls(
            directory=directory,
            title=f"{record.scenario}, {record.cell}, trial {record.trial.number}",
            base=directory.base_image,
            filesystem=plan.filesystem,
            timeline=timeline,
            history=history,
            run_id=run_id,
            record=record,
            layout=None,
            plan=plan,
            image_format=record.parameters.machine.format,
            system=RecordedSystem(record.parameters, record.versions, record.program_files),
            gaps=tuple(gaps),
        )

    def tearing_at(self, atomic_unit: int) -> TrialRecording:
        """The same on a disk that promises to write aligned blocks of so many bytes whole.

        Nothing of the recording depends on it but which crash states are legal.
        """
        contract = replace(self.timeline.contract, atomic_unit=atomic_unit)
        timeline = replace(self.timeline, contract=contract)
        if self.known_promises is not None:
            return replace(self, timeline=timeline)
        return replace(self, timeline=timeline, known_evidence=self.evidence)

    @property
    def parameters(self) -> Parameters:
        return self.record.parameters


def open_trial(trial: TrialDir) -> TrialRecording:
    """Loads the recording in `trial`.

    Raises DamagedRecording if disk log, history or trial.json cannot be read at all.
    """
    record = trial.read_record()
    timeline = read_disk_log(trial, record, verify_payloads=True)
    if failed := host_failures(timeline):
        raise DamagedRecording(
            f"{trial.path}: I/O error on the host, below the disk under test "
            f"({'; '.join(failed)}): "
            "nothing follows from its crash states",
            hint="make room on the host, or look at its disk, and record again",
        )
    gaps = [record.trouble] if record.trouble else []
    if not timeline.complete:
        gaps.append("the disk log was not closed: later requests are missing")
    workload = workload_of(record.parameters)
    if isinstance(workload, AcksByLines):
        return _of_lines(trial, record, timeline, workload, gaps)
    recorded = read_acks(trial)
    if not recorded.complete:
        gaps.append("the history of acks was cut off: later ones may be missing")
    if recorded.history.error:
        gaps.append(f"the workload failed: {recorded.history.error}")
    _require_images(trial, record)
    timeline = under_cut(timeline, record.parameters.cut.kind)
    run_id = bytes.fromhex(record.run_id)
    if isinstance(workload, AcksByWire) and not is_recognised(record.parameters):
        run = Run(run_id, record.trial.seed)
        promises = workload.promises_by_wire(run, timeline, recorded.history)
        gaps += promises.gaps
        return TrialRecording.of_promises(trial, record, timeline, promises, gaps)
    layout = wal_layout(record.parameters)
    evidence = gather(timeline, recorded.history, run_id, layout, deep=True)
    return TrialRecording.of(trial, record, evidence, gaps)


def _of_lines(
    trial: TrialDir,
    record: TrialRecord,
    timeline: Timeline,
    workload: AcksByLines,
    gaps: list[str],
) -> TrialRecording:
    _require_images(trial, record)
    if record.cut_ns is None or timeline.cut is None or int(timeline.cut.at) != record.cut_ns:
        raise DamagedRecording(f"{trial.path}: the disk log is not that of this cut")
    packets = read_lines(trial)
    if doubts := doubts_of(timeline, packets, record.damage):
        raise DamagedRecording(
            f"{trial.path}: {'; '.join(doubts)}: nothing follows from its crash states",
            hint="look after the host, and record again",
        )
    promises = workload.promises_by_lines(packets, record.cut_ns)
    timeline = under_cut(timeline, record.parameters.cut.kind)
    gaps += promises.gaps
    recording = TrialRecording.of_promises(trial, record, timeline, promises, gaps)
    control = positive_of(trial, record, workload, promises)
    blind = "" if control is None or control.passed else control.message
    return replace(recording, blind=blind, positive=control)


def _require_images(trial: TrialDir, record: TrialRecord) -> None:
    """Raises DamagedRecording unless the disk at power-on is there, with what it lies over."""
    if not trial.base_image.is_file():
        raise DamagedRecording(f"{trial.base_image}: the disk at power-on is missing")
    overlay = record.parameters.machine.backing_image is not BackingImage.NONE
    if overlay and not trial.sealed_digest(trial.backing_image.name):
        raise DamagedRecording(f"{trial.backing_image}: what the image lies over is not sealed")
