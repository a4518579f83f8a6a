# SPDX-License-Identifier: Apache-2.0
"""Combinations that cannot work on a machine that is there already (powercut.scenario.refusal).

powercut makes nothing of it: not its disk, not its file system, not its kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from powercut.model.contract import CutKind
from powercut.scenario.choices import FilesystemType
from powercut.scenario.machines import row_of
from powercut.scenario.settings import MachineSettings, Parameters, ProgramSettings
from powercut.scenario.settings_program import ON_MACHINE

Reason = tuple[str, str]

_OF_PLACE: Final = ("host", "folder", "power")
_USUAL: Final = MachineSettings()


def refusals_of_place(p: Parameters) -> Iterator[Reason]:
    """Where the machine is and how its power goes: of one that is there, and of no other."""
    backend = p.machine.backend
    if not row_of(p.machine.backend).own_system:
        for key in _OF_PLACE:
            if getattr(p.machine, key) is not None:
                yield f"machine.{key}", f"it is for `backend: foreign`, and this one is {backend}"
        return
    if p.machine.host is None:
        yield "machine.host", f"{backend} is a machine that is there: say where, [USER@]NAME[:PORT]"
    if p.machine.folder is None:
        yield "machine.folder", "say which folder there lies on the disk under test"
    if p.machine.power is None and p.cut.kind is not CutKind.GUEST_CRASH:
        yield (
            "machine.power",
            f"say which commands take the power away ({p.cut.kind.value}); without any only its "
            "kernel can be made to restart: `cut.kind: guest-crash`",
        )
    for key in MachineSettings.model_fields:
        if key not in (*_OF_PLACE, "backend") and getattr(p.machine, key) != getattr(_USUAL, key):
            yield f"machine.{key}", f"{backend} is as it is; leave it out"
    if not isinstance(p.workload, ProgramSettings):
        yield (
            "workload.kind",
            f"{backend} runs programs on its own system: `kind: program` and a command",
        )


def refusals_on_machine(p: Parameters, program: ProgramSettings) -> Iterator[Reason]:
    """Why the program cannot be run there."""
    if not row_of(p.machine.backend).own_system:
        yield "workload.root", f"{p.machine.backend} brings no system along: use `backend: foreign`"
        return
    if program.root != ON_MACHINE:
        yield "workload.root", "the machine has a system of its own; leave it out"
    if program.packages:
        yield "workload.packages", "packages go with `root: debian` alone"
    if program.where != ProgramSettings.model_fields["where"].default:
        yield "workload.where", "a program runs on the machine's own kernel; leave it out"
    if program.syncs == "traced":
        yield "workload.syncs", "powercut brings no tracer to a machine that is there already"
    if program.bring and program.command[0].startswith("/"):
        yield "workload.bring", "it goes with a relative command"
    if "/" not in program.command[0]:
        yield (
            "workload.command",
            "there a program is named by its path (/usr/bin/mydb-test), or by a path that begins "
            "at the scenario's folder (./mydb-test) and is brought there with its folder",
        )
    if p.filesystem.type is FilesystemType.RAW:
        return  # said elsewhere
    for key in ("mkfs", "mount"):
        if getattr(p.filesystem, key):
            yield f"filesystem.{key}", "the machine has made and mounted it; leave it out"
