# SPDX-License-Identifier: Apache-2.0
"""Judges again what `powercut record` left until version 0.2: a recording and its control.

Today a program is recorded as a scenario (powercut.trial.host_files).  This module,
explore/program.py, recording/program.py and store/program.py remain so that the older recordings
verify.

The control is the same program on a disk that ignores flushes: there, every acknowledged
operation can be lost, and a check that does not notice would notice nothing.  No SAFE without it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from powercut.explore.program import ProgramExplorer
from powercut.explore.request import Budget
from powercut.model.errors import DamagedRecording
from powercut.model.verdict import FindingKind, Verdict
from powercut.recording.consent import require_consent_to
from powercut.recording.program import open_program
from powercut.recover.native.engine import NativeEngine
from powercut.recover.uml.engine import UmlEngine
from powercut.rig.commands import recovery_plan
from powercut.rig.host_files import command_sha256, program_changed
from powercut.scenario.settings import (
    FilesystemSettings,
    FilesystemType,
    Parameters,
    ProgramSettings,
)
from powercut.store.manifest import digest_of
from powercut.store.program import RECORD, ProgramDir, ProgramRecord, ProgramResult
from powercut.workload.program.workload import ProgramWorkload

LYING: Final = "lying"
_CONTROL_BUDGET: Final = Budget(states=12)

_OF_EACH_RECORDING: Final = ("recording", "cut_ns", "trouble", "damage")
"""Fields of program.json in which two recordings of the same settings differ."""

_NOTICED: Final = frozenset({FindingKind.LOST.value, FindingKind.CORRUPT.value})
"""What a check has to say of the control; a disk that does not mount is not of its doing."""


@dataclass(frozen=True)
class ProgramEvent:
    """How far it has come: what is done now, and how much of it."""

    doing: str
    done: int = 0
    lossy: int = 0


Listener = Callable[[ProgramEvent], None]


@dataclass(frozen=True)
class ProgramLimits:
    """How long to look at states, what a state may take (seconds), and how to choose them."""

    budget: Budget
    state_s: float
    seed: int


def judge_program(
    directory: ProgramDir, limits: ProgramLimits, listener: Listener
) -> ProgramResult:
    """Judges a recording and its control from what is on disk; writes result.json.

    Raises DamagedRecording, also for the control of another recording, HostError, also if the
    program has changed since.
    """
    check_control(directory)
    require_same_program(directory)
    control = _explore(
        directory.control(LYING),
        ProgramLimits(_CONTROL_BUDGET, limits.state_s, limits.seed),
        lambda done, lossy: listener(ProgramEvent("control", done, lossy)),
    )
    result = _explore(
        directory,
        limits,
        lambda done, lossy: listener(ProgramEvent("states", done, lossy)),
    )
    result = with_control(result, control)
    directory.write_result(result)
    return result


def check_control(directory: ProgramDir) -> None:
    """Raises DamagedRecording unless the control differs from its recording in lying alone.

    A loss of whatever else would show nothing of this program and its check.
    """
    control = directory.control(LYING)
    record, found = directory.read_record(), control.read_record()
    own = {name: getattr(found, name) for name in _OF_EACH_RECORDING}
    lying = {"control": LYING, "contract": record.contract.lying()}
    wanted = record.model_copy(update=own | lying)
    fields = type(record).model_fields
    differing = [name for name in fields if getattr(found, name) != getattr(wanted, name)]
    if digest_of(control.base) != digest_of(directory.base):
        differing.append(control.base.name)
    if differing:
        raise DamagedRecording(
            f"{control.path}: it is not the control of {directory.path}: another "
            f"{', '.join(differing)}",
            hint="put back the folders that were recorded together, or record again",
        )


def require_same_program(directory: ProgramDir) -> None:
    """Raises HostError if the program on this host is not the one that was recorded.

    Another check may read what is there in another way: its word would be no evidence.
    """
    record = directory.read_record()
    require_consent_to(directory.path, RECORD, (shlex.join([*record.command, "check"]),))
    now = command_sha256(record.command, record.folder)
    if record.program_sha256 and record.program_sha256 != now:
        raise program_changed(record.command[0])


def with_control(result: ProgramResult, control: ProgramResult) -> ProgramResult:
    """The verdict once the control is known: no SAFE if it was not LOSSY."""
    changes: dict[str, object] = {"controls": {LYING: control.verdict}}
    noticed = any(
        finding.kind in _NOTICED and finding.verdict == Verdict.LOSSY.name
        for finding in control.findings
    )
    if control.outcome is not Verdict.LOSSY or not noticed:
        why = (
            "the control did not lose anything: on a disk that ignores flushes the check missed "
            f"nothing of what this program acknowledged in {control.states} states, or nothing "
            "could be said of them; so what its check says is no evidence"
        )
        changes["reasons"] = (
            *result.reasons,
            why,
            *(f"the control: {reason}" for reason in control.reasons),
        )
        if result.outcome is Verdict.SAFE:
            changes["verdict"] = Verdict.INCONCLUSIVE.name
    return result.model_copy(update=changes)


def parameters_of(record: ProgramRecord) -> Parameters:
    """The settings of the cell that `record` would be today."""
    options = tuple(record.mount_options.split(",")) if record.mount_options else ()
    return Parameters(
        filesystem=FilesystemSettings(type=FilesystemType(record.filesystem), mount=options),
        workload=ProgramSettings(kind="program", command=record.command, folder=record.folder),
    )


def _explore(
    directory: ProgramDir, limits: ProgramLimits, listener: Callable[[int, int], None]
) -> ProgramResult:
    recording = open_program(directory)
    record = recording.record
    parameters = parameters_of(record)
    plan = recovery_plan(parameters, bytes.fromhex(record.run_id), record.seed)
    guest = UmlEngine(directory.base, plan, programs={})
    with NativeEngine(guest, plan, ProgramWorkload(parameters).argv("checks")) as engine:
        explorer = ProgramExplorer(
            recording, engine, seed=limits.seed, state_s=limits.state_s, listener=listener
        )
        return explorer.judge(limits.budget)
