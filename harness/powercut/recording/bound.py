# SPDX-License-Identifier: Apache-2.0
"""Reads the evidence of a recording, and nothing but that of this recording.

Disk log, recovery's log and history name the recording that they belong to, as does the
observation (powercut.store.layout); trial.json says which that is, under the seal.  A file of
another recording is refused, whatever its own checksums say.  The header of a log names the
contract that its disk kept, too: it has to be the one that the settings asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from powercut.channel.history_file import RecordedHistory, history_of
from powercut.channel.lines import unpack
from powercut.disk.pclog import host_failures, read_timeline
from powercut.disk.pclog_format import LogHeader, data_path, header_of, log_path
from powercut.model.binding import Binding, check_digest
from powercut.model.contract import DeviceContract
from powercut.model.errors import DamagedRecording, UsageError
from powercut.model.named_path import openable
from powercut.model.operations import Packet
from powercut.model.timeline import DiskRange, Timeline
from powercut.model.verdict import EvidenceLevel
from powercut.scenario.place import place_of
from powercut.scenario.settings import Parameters
from powercut.store.packed import evidence_bytes, has_evidence
from powercut.store.trial_dir import TrialDir, TrialRecord, text_digest

_NO_PROMISES: Final = frozenset({"flush_latency_ns", "fua_latency_ns"})
"""What a contract says besides what it promises: how long things take is on the log's clock."""

_HINT: Final = "put back the files that were recorded together, or record again"


def check_level(trial: TrialDir, record: TrialRecord) -> None:
    """Raises DamagedRecording if the evidence is not of the level that the record says.

    The level follows from the settings, and was written down before the run: a disk log that is
    gone makes no recording live only, and one that lies there was recorded.
    """
    level = place_of(record.parameters).evidence_level
    if record.evidence_level is not level:
        raise DamagedRecording(
            f"{trial.path / 'trial.json'}: it says that the evidence is "
            f"{record.evidence_level.value}, and that of {record.parameters.machine.backend} is "
            f"{level.value}",
            hint=_HINT,
        )
    if level is EvidenceLevel.LIVE_ONLY:
        prefixes = (trial.disk_log, trial.recovery_log)
        files = [file for prefix in prefixes for file in (log_path(prefix), data_path(prefix))]
        logs = [file for file in files if has_evidence(file)]
        if logs:
            raise DamagedRecording(
                f"{logs[0]}: trial.json beside it says that no disk was recorded", hint=_HINT
            )


def require_disk_log(trial: TrialDir, record: TrialRecord) -> None:
    """Raises UsageError for a trial whose disk was not recorded."""
    check_level(trial, record)
    if record.evidence_level is EvidenceLevel.LIVE_ONLY:
        raise UsageError(
            f"{trial.path}: {record.parameters.machine.backend} does not record its disk, so that "
            "there are no requests and no crash states to look at: only its cut can be judged",
            hint="`powercut show` tells what the cut left",
        )


def read_disk_log(trial: TrialDir, record: TrialRecord, *, verify_payloads: bool) -> Timeline:
    """The log of the run.  Raises DamagedRecording, also for the log of another recording."""
    return _read_log(trial, record, trial.disk_log, verify_payloads=verify_payloads)


def read_recovery_log(trial: TrialDir, record: TrialRecord, *, verify_payloads: bool) -> Timeline:
    """The log of what followed the cut; else as `read_disk_log`."""
    return _read_log(trial, record, trial.recovery_log, verify_payloads=verify_payloads)


def read_acks(trial: TrialDir) -> RecordedHistory:
    """What was acknowledged.  Raises DamagedRecording, also for another recording's history."""
    recorded = history_of(trial.history, evidence_bytes(trial.history).tobytes())
    check_digest(trial.history, recorded.digest, trial.read_binding())
    return recorded


def read_lines(trial: TrialDir) -> tuple[Packet, ...]:
    """What a program said.  Raises DamagedRecording, also for another recording's lines."""
    try:
        return unpack(evidence_bytes(trial.lines).tobytes(), trial.read_binding())
    except DamagedRecording as error:
        raise DamagedRecording(f"{trial.lines}: {error}") from error


def doubts_of(
    timeline: Timeline, packets: Sequence[Packet] = (), damage: Sequence[str] = ()
) -> tuple[str, ...]:
    """What the host did to a program's recording; empty if nothing.

    A program may go wrong by that, and its claims by a clock that does: no loss in such a recording
    can be laid to the disk or the program.  `damage` is what the recorder says of itself.
    """
    doubts = [*damage]
    doubts += [
        f"I/O error on the host, below the disk under test: {why}"
        for why in host_failures(timeline)
    ]
    if not timeline.complete:
        doubts.append("the disk log was not closed: later requests are missing")
    instants = [packet.at_ns for packet in packets]
    if any(later < one for one, later in pairwise(instants)):
        doubts.append("the clock of the program's lines went back")
    if instants and instants[0] < timeline.start_ns:
        doubts.append("the program's lines are older than the disk: they are of another clock")
    return tuple(doubts)


def check_scenario(trial: TrialDir, record: TrialRecord, scenario: Path) -> None:
    """Raises DamagedRecording if `scenario` is not the one that the recording was made by."""
    try:
        digest = text_digest(openable(scenario).read_bytes())
    except OSError as error:
        raise DamagedRecording(f"{scenario}: {error.strerror}") from error
    if record.scenario_sha256 != digest:
        raise DamagedRecording(
            f"{scenario}: it is not the scenario that {trial.path} was recorded by",
            hint="put back the scenario that the run was made with",
        )


def read_bound_log(
    prefix: Path, binding: Binding, contract: DeviceContract, *, verify_payloads: bool
) -> Timeline:
    """The log named `prefix`, which must be that of the recording `binding`, of such a disk.

    Raises DamagedRecording.
    """
    path = log_path(prefix)
    contents = {file: evidence_bytes(file) for file in (path, data_path(prefix))}
    header = header_of(path, contents[path])
    _check_header(path, header, binding)
    _check_contract(path, header.contract, contract)
    return read_timeline(prefix, verify_payloads=verify_payloads, read=contents.__getitem__)


def _read_log(
    trial: TrialDir, record: TrialRecord, prefix: Path, *, verify_payloads: bool
) -> Timeline:
    require_disk_log(trial, record)
    contract = record.parameters.disk.contract()
    read = read_bound_log(prefix, trial.read_binding(), contract, verify_payloads=verify_payloads)
    return replace(read, disks=disks_of(record.parameters))


def disks_of(parameters: Parameters) -> tuple[DiskRange, ...]:
    """The disks that were captured as one; none if there was one."""
    return tuple(
        DiskRange(part.name, part.offset, part.offset + part.size, part.word)
        for part in parameters.disk.parts
    )


def _check_header(path: Path, header: LogHeader, binding: Binding) -> None:
    if header.binding.run_id != binding.run_id:
        raise DamagedRecording(
            f"{path}: it is the log of another run ({header.binding}), and trial.json beside it is "
            f"of {binding}",
            hint=_HINT,
        )
    check_digest(path, header.binding.digest, binding, str(header.binding))


def _check_contract(path: Path, kept: DeviceContract, wanted: DeviceContract) -> None:
    differing = [
        f"{name}: {_word(value)}, and {_word(getattr(wanted, name))}"
        for name, value in vars(kept).items()
        if name not in _NO_PROMISES and value != getattr(wanted, name)
    ]
    if not differing:
        return
    raise DamagedRecording(
        f"{path}: its disk kept another contract than the settings in trial.json ask for "
        f"({'; '.join(differing)})",
        hint=_HINT,
    )


def _word(value: object) -> str:
    return str(getattr(value, "value", value))
