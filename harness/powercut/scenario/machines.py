# SPDX-License-Identifier: Apache-2.0
"""Machine backends by name: the core's, and those of extras; powercut.rig.rig loads one.

A row says where the class is, and what evidence its machines can leave: of a machine that keeps
its disk to itself powercut sees no request, so that nothing but its cuts can be judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from powercut.model.extras import loaded, registered
from powercut.model.verdict import EvidenceLevel

_EXTRAS: Final = "powercut.machines"


@dataclass(frozen=True)
class MachineRow:
    """A backend: its class as `module:name`, and what its machines leave to be judged.

    `own_system`: its machines are there already, with a system of their own on which programs run
    and a disk that no other machine makes; then it is `module:name` of what records there (Work in
    powercut.trial.record).  `of_programs`: they are kernels on this host for programs, chosen by
    `workload.where` and not by `machine.backend`.
    """

    place: str
    evidence_level: EvidenceLevel = EvidenceLevel.RECORDED
    own_system: str = ""
    of_programs: bool = False


MACHINES: Final[dict[str, MachineRow]] = {
    "loop": MachineRow("powercut.rig.kernel_machine:loop_backend", of_programs=True),
    "qemu": MachineRow("powercut.machine.qemu.backend:QemuBackend"),
    "uml": MachineRow("powercut.rig.kernel_machine:uml_backend", of_programs=True),
}
"""The core's rows by name: the one that `machine.backend` gives, but for UML and LOOP."""

USUAL: Final = "qemu"
UML: Final = "uml"
LOOP: Final = "loop"


def backends() -> tuple[str, ...]:
    """What `machine.backend` may be."""
    own = (name for name, row in MACHINES.items() if not row.of_programs)
    return tuple(sorted({*own, *registered(_EXTRAS)}))


def row_of(name: str) -> MachineRow:
    """The row of that name.  Raises KeyError if there is none, HostError for a broken extra."""
    if name in MACHINES:
        return MACHINES[name]
    row: MachineRow = loaded(registered(_EXTRAS)[name])
    return row
