# SPDX-License-Identifier: Apache-2.0
"""A recording of a program, opened for whoever looks at its crash states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from powercut.channel.lines import Line, LineKind, Packet, lines_of_check, lines_of_run, unpack
from powercut.crash.states import StateSpace
from powercut.disk.pclog import read_timeline
from powercut.disk.pclog_format import log_path, read_header
from powercut.model.binding import check_digest
from powercut.model.errors import DamagedRecording
from powercut.model.observation import Observation
from powercut.model.operations import OperationHistory, Sighting
from powercut.model.units import NEVER
from powercut.model.verdict import LsnRange
from powercut.store.program import ProgramDir, ProgramRecord

_SHOWN_MAX = 4


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


def history_of(packets: Sequence[Packet], cut_ns: int = int(NEVER)) -> OperationHistory:
    """What the program claimed before the cut.

    Claims that cannot be are its trouble: an ack of what was never tried or has failed, a second
    ack, a second attempt of what was acknowledged.
    """
    read = lines_of_run(packet for packet in packets if packet.at_ns < cut_ns)
    attempts: dict[int, int] = {}
    acks: dict[int, int] = {}
    failed: set[int] = set()
    trouble = list(read.problems)
    ready = None
    for line in read.lines:
        problem = _impossible(line, attempts, acks, failed)
        if problem:  # what cannot be is the program's mistake, and requires nothing
            trouble.append(problem)
            continue
        match line.kind:
            case LineKind.READY:
                ready = line.at_ns if ready is None else ready
            case LineKind.ATTEMPT:
                attempts.setdefault(line.first, line.at_ns)
                failed.discard(line.first)
            case LineKind.ACK:
                acks.setdefault(line.first, line.at_ns)
            case LineKind.FAILED:
                failed.add(line.first)
            case _:
                trouble.append(f"the program says: {line.text}")
    more = len(trouble) - _SHOWN_MAX
    told = trouble[:_SHOWN_MAX] + ([f"and {more} more of its claims"] if more > 0 else [])
    return OperationHistory(
        *_columns(attempts), *_columns(acks), frozenset(failed), ready, tuple(told)
    )


def _impossible(
    line: Line, attempts: dict[int, int], acks: dict[int, int], failed: set[int]
) -> str:
    one = line.first
    if line.kind is LineKind.ACK:
        if one in acks:
            return f"the program acknowledges operation {one} twice"
        if one in failed:
            return f"the program acknowledges operation {one}, which has failed"
        if one not in attempts:
            return f"the program acknowledges operation {one}, which it never tried"
    if line.kind is LineKind.ATTEMPT and one in acks:
        return f"the program tries operation {one} again, which is acknowledged"
    if line.kind is LineKind.FAILED and one in acks:
        return f"the program takes back operation {one}, which is acknowledged"
    return ""


def _columns(claims: dict[int, int]) -> tuple[np.ndarray, np.ndarray]:
    operations = np.fromiter(claims.keys(), dtype=np.int64, count=len(claims))
    instants = np.fromiter(claims.values(), dtype=np.int64, count=len(claims))
    order = np.argsort(instants, kind="stable")
    return operations[order], instants[order]


def sighting_of(observation: Observation) -> Sighting:
    """What the program's check found in a recovered state."""
    read = lines_of_check(observation.lines)
    present, wrong, bad = [], [], []
    incomplete = list(read.problems)
    if not observation.complete:
        incomplete.append(f"it did not look at everything: {observation.failure}")
    for line in read.lines:
        match line.kind:
            case LineKind.PRESENT:
                present.append(LsnRange(line.first, line.last))
            case LineKind.WRONG:
                wrong.append((line.first, line.text))
            case LineKind.BAD:
                bad.append(line.text)
            case LineKind.TROUBLE:
                incomplete.append(line.text)
            case _:
                pass
    return Sighting(tuple(present), tuple(wrong), tuple(bad), tuple(incomplete))
