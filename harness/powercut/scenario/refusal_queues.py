# SPDX-License-Identifier: Apache-2.0
"""Threads and queues that a disk does not have, or that its guest would not use
(powercut.scenario.refusal)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from powercut.model.machine import Bus, Export
from powercut.scenario.disk_machines import machines_of_disks
from powercut.scenario.settings import MachineSettings, Parameters

Reason = tuple[str, str]

_KEYS: Final = ("iothread", "queues")
_SCSI: Final = (Bus.VIRTIO_SCSI, Bus.VIRTIO_SCSI_FUA)


def refusals_of_queues(p: Parameters) -> Iterator[Reason]:
    """Why a disk cannot have the thread or the queues that it is to have: (dotted key, reason)."""
    machines = machines_of_disks(p)
    names = [part.name for part in p.disk.parts] or [""]
    for name, machine in zip(names, machines, strict=True):
        for key, reason in _of_disk(machine):
            if machine is machines[0]:
                yield f"machine.{key}", reason
            else:
                yield "disk.also", f"{name}: {key}: {reason}"
    shared = {machine.queueing for machine in machines if machine.bus in _SCSI}
    if len(shared) > 1:
        yield (
            "disk.also",
            "disks on virtio-scsi share a controller, with its thread and its queues: give each "
            "the same iothread and queues",
        )
    liked = any(machine.like is not None for machine in machines)
    for key in _KEYS:
        if liked and any(getattr(machine, key) for machine in machines):
            yield f"machine.{key}", "the domain that it is made like says so itself (machine.like)"


def _of_disk(machine: MachineSettings) -> Iterator[Reason]:
    bus = machine.bus
    if machine.iothread and not bus.threaded:
        yield (
            "iothread",
            f"QEMU handles a disk on {bus.value} in its main loop; virtio-blk or virtio-scsi",
        )
    if machine.queues and not bus.multiqueue:
        yield "queues", f"a disk on {bus.value} has no such choice; virtio-blk, virtio-scsi or nvme"
    elif machine.queues > machine.cpus:
        yield (
            "queues",
            f"a guest uses at most one a processor, and this one has {machine.cpus}: "
            f"machine.cpus: {machine.queues}",
        )
    if machine.export is Export.VHOST_USER_BLK:
        for key in _KEYS:
            if getattr(machine, key):
                yield key, "with vhost-user-blk requests go to the daemon, past QEMU; leave it out"
