# SPDX-License-Identifier: Apache-2.0
"""A recording of a program, opened for whoever looks at its crash states."""

from __future__ import annotations

from dataclasses import dataclass

from powercut.channel.lines import unpack
from powercut.crash.states import StateSpace
from powercut.disk.pclog import read_timeline
from powercut.disk.pclog_format import log_path, read_header
from powercut.model.binding import check_digest
from powercut.model.errors import DamagedRecording
from powercut.model.operations import OperationHistory
from powercut.store.program import ProgramDir, ProgramRecord
from powercut.workload.program.claims import history_of


@dataclass(frozen=True)
class ProgramRecording:
    """Disk, claims and crash states of one run; `gaps` says what is missing, empty if nothing."""

    directory: ProgramDir
    record: ProgramRecord
    history: OperationHistory
    space: StateSpace
    gaps: tuple[str, ...]


def open_program(directory: ProgramDir) -> ProgramRecording:
    """Reads a sealed recording.  Raises DamagedRecording."""
    record = directory.read_record()
    header = read_header(directory.disk_log)
    check_digest(log_path(directory.disk_log), header.binding.digest, record.binding)
    timeline = read_timeline(directory.disk_log, verify_payloads=True)
    try:
        packets = unpack(directory.lines.read_bytes(), record.binding)
    except OSError as error:
        raise DamagedRecording(f"{directory.lines}: {error.strerror}") from error
    if record.cut_ns is None or timeline.cut is None or int(timeline.cut.at) != record.cut_ns:
        raise DamagedRecording(f"{directory.path}: the disk log is not that of this cut")
    if timeline.contract != record.contract:
        raise DamagedRecording(f"{directory.path}: the disk log is of a disk with another contract")
    history = history_of(packets, record.cut_ns)
    gaps = [*record.trouble, *history.trouble]
    if not timeline.complete:
        gaps.append("the disk log was not closed: later requests are missing")
    gaps += [name for _, name in timeline.marks if name.startswith(("refusing", "failing"))]
    return ProgramRecording(directory, record, history, StateSpace(timeline, history), tuple(gaps))
