# SPDX-License-Identifier: Apache-2.0
"""Where a workload runs: on which machine, and on whose files.

`workload.where`, `workload.root` and `machine.backend` answer this together.  The question is asked
here alone; everything else has the answer.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from powercut.model.verdict import EvidenceLevel
from powercut.scenario.machines import LOOP, UML, MachineRow, row_of
from powercut.scenario.settings import MachineSettings, Parameters, ProgramSettings
from powercut.scenario.settings_program import NO_VM, ON_HOST, ON_MACHINE


class Files(enum.Enum):
    """The files that a workload sees as its root."""

    GUEST = "powercut's small guest"
    HOST = "this host's own files"
    UNPACKED = "a root of its own, unpacked on this host"
    IMAGE = "a root of its own, a disk of its machine"
    MACHINE = "those of a machine that is there already"

    @property
    def carried(self) -> bool:
        """Whether they are a root of the program's own, which another host can be given."""
        return self in (Files.UNPACKED, Files.IMAGE)


@dataclass(frozen=True)
class Place:
    """A machine by its name (powercut.scenario.machines), and the files there."""

    machine: str
    files: Files

    @property
    def row(self) -> MachineRow:
        """What is known of such machines."""
        return row_of(self.machine)

    @property
    def evidence_level(self) -> EvidenceLevel:
        """What a trial there leaves to be judged."""
        return self.row.evidence_level

    @property
    def virtual(self) -> bool:
        """Whether a machine of `machine.backend` comes into it."""
        return not self.row.of_programs


def place_of(parameters: Parameters) -> Place:
    """Where the workload of a cell runs; of a cell that is refused, where it was meant to."""
    backend, program = parameters.machine.backend, parameters.workload
    if not isinstance(program, ProgramSettings):
        return Place(backend, Files.GUEST)
    if row_of(backend).own_system or program.root == ON_MACHINE:
        return Place(backend, Files.MACHINE)
    if program.root == ON_HOST:
        return Place(LOOP if program.where == LOOP else UML, Files.HOST)
    if program.where == NO_VM:
        return Place(UML, Files.UNPACKED)
    return Place(backend, Files.IMAGE)


# What the machine is to each of several disks.

OF_A_MACHINE: Final = ("bus", "cache", "aio", "iothread", "queues", "like")
"""What the machine may be to one of several disks alone."""


def machines_of_disks(parameters: Parameters) -> tuple[MachineSettings, ...]:
    """What the machine is to each of its disks: in `OF_A_MACHINE` they differ."""
    machine = parameters.machine
    changes = (
        {key: value for key in OF_A_MACHINE if (value := getattr(disk, key)) is not None}
        for disk in parameters.disk.also
    )
    return (machine, *(machine.model_copy(update=change) for change in changes))
