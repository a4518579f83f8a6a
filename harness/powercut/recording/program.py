# SPDX-License-Identifier: Apache-2.0
"""A recording of a program, opened for whoever looks at its crash states."""

from __future__ import annotations

from dataclasses import dataclass

from powercut.channel.lines import unpack
from powercut.crash.states import StateSpace
from powercut.model.errors import DamagedRecording
from powercut.model.operations import OperationHistory
from powercut.recording.bound import doubts_of, read_bound_log
from powercut.store.program import ProgramDir, ProgramRecord
from powercut.workload.program.claims import history_of


@dataclass(frozen=True)
class ProgramRecording:
    """Disk, claims and crash states of one run.

    `gaps` says what keeps it from being SAFE; of these, `doubts` keep even a loss from being
    certain, since they are of the host's making.
    """

    directory: ProgramDir
    record: ProgramRecord
    history: OperationHistory
    space: StateSpace
    gaps: tuple[str, ...]
    doubts: tuple[str, ...] = ()


def open_program(directory: ProgramDir) -> ProgramRecording:
    """Reads a sealed recording.  Raises DamagedRecording."""
    record = directory.read_record()
    timeline = read_bound_log(
        directory.disk_log, record.binding, record.contract, verify_payloads=True
    )
    try:
        packets = unpack(directory.lines.read_bytes(), record.binding)
    except OSError as error:
        raise DamagedRecording(f"{directory.lines}: {error.strerror}") from error
    if record.cut_ns is None or timeline.cut is None or int(timeline.cut.at) != record.cut_ns:
        raise DamagedRecording(f"{directory.path}: the disk log is not that of this cut")
    history = history_of(packets, record.cut_ns)
    doubts = doubts_of(timeline, packets, record.damage)
    gaps = (*record.trouble, *history.trouble, *doubts)
    space = StateSpace(timeline, history)
    return ProgramRecording(directory, record, history, space, gaps, doubts)
