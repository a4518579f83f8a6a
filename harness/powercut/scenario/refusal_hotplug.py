# SPDX-License-Identifier: Apache-2.0
"""Disks that cannot be plugged into a guest that runs (powercut.scenario.refusal)."""

from __future__ import annotations

from collections.abc import Iterator

from powercut.model.machine import Bus, Export
from powercut.scenario.machines import USUAL
from powercut.scenario.settings import Parameters

Reason = tuple[str, str]


def refusals_of_hotplug(p: Parameters) -> Iterator[Reason]:
    """Why `machine.hotplug` cannot be: (dotted key, reason) each."""
    machine, key = p.machine, "machine.hotplug"
    if not machine.hotplug:
        return
    if machine.backend != USUAL:
        yield key, f"disks of {machine.backend} are there at boot; use machine.backend: {USUAL}"
    if p.workload.kind != "wal":
        yield (
            key,
            "the guest of a program has other disks, before this one; use kind: wal",
        )
    if not machine.bus.hotpluggable:
        known = ", ".join(bus.value for bus in Bus if bus.hotpluggable)
        yield key, f"no disk on {machine.bus.value} is plugged in while its guest runs; {known}"
    if machine.export is Export.VHOST_USER_BLK:
        yield key, "the disk of vhost-user-blk is there at boot; another export, or none"
    if machine.during:
        yield key, "a guest that moves or restarts has its disk at boot; leave machine.during out"
