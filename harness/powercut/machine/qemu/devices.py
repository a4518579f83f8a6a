# SPDX-License-Identifier: Apache-2.0
"""The devices by which a guest reaches a disk, as QEMU's properties.

The command line and QMP's `device_add` take the same ones; the latter wants numbers and switches as
such, and not as text.  Names: `qemu-system-x86_64 -device DRIVER,help`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from powercut.model.machine import USUAL_QUEUEING, Bus, HostCache, Queueing

Properties = dict[str, str | int | bool]
"""`driver`, and what it is given."""

_SWITCH: Final = {True: "on", False: "off"}


@dataclass(frozen=True)
class DiskDevice:
    """A disk as its guest is to find it; `node` is its block node.

    `config_wce` is of virtio-blk; None: as QEMU has it.
    """

    node: str
    bus: Bus
    cache: HostCache
    serial: str = ""
    queueing: Queueing = USUAL_QUEUEING
    config_wce: bool | None = None


@dataclass(frozen=True)
class DiskDevices:
    """What has to be made for a disk, in this order: threads by name, controllers, the disk."""

    threads: tuple[str, ...]
    controllers: tuple[Properties, ...]
    disk: Properties

    @property
    def argv(self) -> list[str]:
        """As QEMU's command line has it."""
        return [*self.around, "-device", device_text(self.disk)]

    @property
    def around(self) -> list[str]:
        """The same without the disk."""
        controllers = map(device_text, self.controllers)
        return [
            *(word for name in self.threads for word in ("-object", f"iothread,id={name}")),
            *(word for device in controllers for word in ("-device", device)),
        ]


def device_text(device: Properties) -> str:
    """A device as the option `-device` has it."""
    driver, *rest = device.items()
    return ",".join([str(driver[1]), *(f"{key}={_text(value)}" for key, value in rest)])


def disk_devices(disk: DiskDevice, before: Sequence[Bus] = ()) -> DiskDevices:
    """What `disk` is made of beside disks that were made `before`, on these buses.

    Disks on virtio-scsi share a controller, and so its thread and its queues.
    """
    # Errors are the guest's to see: by default a full host would silently stop it.  NVMe
    # has no such choice; it always reports them.
    drive: Properties = {"drive": disk.node, "write-cache": _SWITCH[disk.cache.write_cache]}
    reported = drive | {"werror": "report", "rerror": "report"}
    if disk.serial:
        reported["serial"] = disk.serial
    place = before.count(disk.bus)
    controllers: list[Properties] = []
    threaded = disk.queueing.iothread
    match disk.bus:
        case Bus.VIRTIO_BLK:
            device: Properties = {"driver": "virtio-blk-pci", **reported}
            if disk.config_wce is not None:
                device["config-wce"] = disk.config_wce
            device |= _queueing(disk, "num-queues")
        case Bus.VIRTIO_SCSI | Bus.VIRTIO_SCSI_FUA:
            if not {Bus.VIRTIO_SCSI, Bus.VIRTIO_SCSI_FUA} & set(before):
                controller: Properties = {"driver": "virtio-scsi-pci", "id": "scsi"}
                controllers.append(controller | _queueing(disk, "num_queues"))
            else:
                threaded = False
            device = {"driver": "scsi-hd", "bus": "scsi.0", **reported}
            device["dpofua"] = disk.bus is Bus.VIRTIO_SCSI_FUA
        case Bus.NVME:
            device = {"driver": "nvme", "serial": disk.serial or "powercut", **drive}
            if count := disk.queueing.queues:
                # Each pair has a message of its own, and the administrator's has one more.
                device |= {"max_ioqpairs": count, "msix_qsize": count + 1}
        case Bus.IDE:
            device = {"driver": "ide-hd", "bus": f"ide.{place // 2}", **reported}  # of `pc`
        case Bus.AHCI:
            controllers += [] if place else [{"driver": "ich9-ahci", "id": "ahci"}]
            device = {"driver": "ide-hd", "bus": f"ahci.{place}", **reported}
        case _:  # USB: memory is no block device
            controllers.append({"driver": "qemu-xhci", "id": "usb"})
            device = {"driver": "usb-storage", "bus": "usb.0", **reported}
    threads = (_thread(disk),) if threaded else ()
    return DiskDevices(threads, tuple(controllers), device)


def _queueing(disk: DiskDevice, count: str) -> Properties:
    found: Properties = {"iothread": _thread(disk)} if disk.queueing.iothread else {}
    return found | ({count: disk.queueing.queues} if disk.queueing.queues else {})


def _thread(disk: DiskDevice) -> str:
    return f"{disk.node}-thread"


def _text(value: str | int | bool) -> str:
    return _SWITCH[value] if isinstance(value, bool) else str(value)
