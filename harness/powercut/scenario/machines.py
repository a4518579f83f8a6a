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
    and a disk that no other machine makes.
    """

    place: str
    evidence_level: EvidenceLevel = EvidenceLevel.RECORDED
    own_system: bool = False


MACHINES: Final[dict[str, MachineRow]] = {
    "foreign": MachineRow(
        "powercut.machine.foreign.backend:ForeignBackend",
        EvidenceLevel.LIVE_ONLY,
        own_system=True,
    ),
    "libvirt": MachineRow("powercut.machine.libvirt.backend:LibvirtBackend"),
    "qemu": MachineRow("powercut.machine.qemu.backend:QemuBackend"),
}
"""The rows by the name that `machine.backend` of a scenario gives."""

USUAL: Final = "qemu"
