# SPDX-License-Identifier: Apache-2.0
"""A recording as the analyses want it: timeline, claims and state space, under one rule.

The rule for kinds of cut: one that leaves the power on takes no volatile cache, so what
the disk had completed is as good as durable.  Neither a crash of the guest nor a kill of
the hypervisor can therefore convict a disk that lies.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from powercut.crash.evidence import Evidence, gather
from powercut.crash.states import StateSpace
from powercut.model.contract import CutKind
from powercut.model.errors import DamagedRecording
from powercut.model.timeline import Timeline
from powercut.model.wal import WalLayout
from powercut.recording.bound import read_acks, read_disk_log
from powercut.rig import commands
from powercut.scenario.settings import Parameters
from powercut.store.layout import TrialDir, TrialRecord


def under_cut(timeline: Timeline, kind: CutKind) -> Timeline:
    """The timeline under the contract that counts for a cut of `kind`."""
    if kind is CutKind.POWER_LOSS:
        return timeline
    return replace(timeline, contract=replace(timeline.contract, volatile_cache=False))


@dataclass(frozen=True)
class Recorded:
    """One recording; `gaps` says what is missing of it, empty if nothing is."""

    trial: TrialDir
    record: TrialRecord
    evidence: Evidence
    space: StateSpace
    layout: WalLayout
    gaps: tuple[str, ...]

    @property
    def run_id(self) -> bytes:
        """The 16 bytes that every record of the run carries."""
        return bytes.fromhex(self.record.run_id)

    @property
    def parameters(self) -> Parameters:
        """What was run."""
        return self.record.parameters


def open_recorded(trial: TrialDir) -> Recorded:
    """Loads the recording in `trial`.

    Raises DamagedRecording if disk log, history or trial.json cannot be read at all.
    """
    record = trial.read_record()
    timeline = read_disk_log(trial, record, verify_payloads=True)
    recorded = read_acks(trial)
    gaps = [record.trouble] if record.trouble else []
    if not timeline.complete:
        gaps.append("the disk log was not closed: later requests are missing")
    if not recorded.complete:
        gaps.append("the history of acks was cut off: later ones may be missing")
    if recorded.history.error:
        gaps.append(f"the workload failed: {recorded.history.error}")
    if not trial.base_image.is_file():
        raise DamagedRecording(f"{trial.base_image}: the disk at power-on is missing")
    layout = commands.wal_layout(record.parameters)
    timeline = under_cut(timeline, record.parameters.cut.kind)
    run_id = bytes.fromhex(record.run_id)
    evidence = gather(timeline, recorded.history, run_id, layout, deep=True)
    space = StateSpace(timeline, evidence.claims, evidence.sets)
    return Recorded(trial, record, evidence, space, layout, tuple(gaps))
