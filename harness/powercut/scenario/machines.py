# SPDX-License-Identifier: Apache-2.0
"""The table of machine backends, and the only list of them; powercut.machine.table loads one.

A row says where the class is, and what evidence its machines can leave: of a machine that keeps
its disk to itself powercut sees no request, so that nothing but its cuts can be judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from powercut.model.verdict import EvidenceLevel


@dataclass(frozen=True)
class MachineRow:
    """A backend: its class as `module:name`, and what its machines leave to be judged.

    `own_system`: its machines are there already, with a system of their own on which programs run
    and a disk that no other machine makes.  `of_programs`: they are kernels on this host for
    programs, chosen by `workload.where` and not by `machine.backend`.
    """

    place: str
    evidence_level: EvidenceLevel = EvidenceLevel.RECORDED
    own_system: bool = False
    of_programs: bool = False


MACHINES: Final[dict[str, MachineRow]] = {
    "foreign": MachineRow(
        "powercut.machine.foreign.backend:ForeignBackend",
        EvidenceLevel.LIVE_ONLY,
        own_system=True,
    ),
    "libvirt": MachineRow("powercut.machine.libvirt.backend:LibvirtBackend"),
    "loop": MachineRow("powercut.rig.kernel_machine:loop_backend", of_programs=True),
    "qemu": MachineRow("powercut.machine.qemu.backend:QemuBackend"),
    "uml": MachineRow("powercut.rig.kernel_machine:uml_backend", of_programs=True),
}
"""The rows by name: the one that `machine.backend` of a scenario gives, but for UML and LOOP."""

USUAL: Final = "qemu"
UML: Final = "uml"
LOOP: Final = "loop"


def backends() -> tuple[str, ...]:
    """What `machine.backend` may be."""
    return tuple(name for name, row in MACHINES.items() if not row.of_programs)
