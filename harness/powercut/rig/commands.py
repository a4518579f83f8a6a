# SPDX-License-Identifier: Apache-2.0
"""What a cell means in terms of the parts: command lines, layouts, promises.

Pure, but for a root that is unpacked on this host: a plan names its folder, so it is there then.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Final

from powercut.disk.base import BaseImageSpec
from powercut.disk.capture_config import CaptureConfig
from powercut.disk.image_format import FormatSpec
from powercut.machine.port import ImageLayer
from powercut.model.binding import Binding
from powercut.model.machine import Aio, BackingImage, Bus, Export, ImageFormat, is_dax
from powercut.model.machine_identity import MachineIdentity
from powercut.recover.plan import GuestRoot, HostRoot, PlanDisk, PlanLayers, RecoveryPlan
from powercut.rig.unpacked import unpacked_root
from powercut.scenario.choices import Writeback
from powercut.scenario.machines import LOOP
from powercut.scenario.place import Files, machines_of_disks, place_of
from powercut.scenario.settings import (
    FilesystemType,
    GuestWriteCache,
    MachineSettings,
    Parameters,
    ProgramSettings,
    Switch,
    WalSettings,
)
from powercut.wal.layout import WalLayout
from powercut.workload.port import MOUNT_POINT, Contents, Run
from powercut.workload.table import workload_of
from powercut.workload.wal.commands import wal_layout

_NETWORK: Final = ("bridge", "veth")
"""Modules of Linux that nodes of a cluster are joined by."""

_NOWHERE: Final = Path("/nonexistent/backing.img")

DISKS_AT_BOOT: Final = "disks_at_boot"
"""The fact that says which disks a guest had before the disk under test was plugged in."""

NO_DISKS: Final = "none"

_SECTOR: Final = 512

DEVICE: Final = Bus.VIRTIO_BLK.device
"""The guest's disk where nobody chose a bus."""


SysfsWriteCache: Final = {True: "write back", False: "write through"}
"""What Linux calls a disk with and without a volatile write cache in queue/write_cache
(Documentation/ABI/stable/sysfs-block)."""


def base_image(parameters: Parameters) -> BaseImageSpec:
    """The disk as it is before the run; under layers, what they are to hold."""
    filesystem, stack = parameters.filesystem, parameters.disk.stack
    if stack is not None:
        return BaseImageSpec(filesystem.type.value, stack.sectors * _SECTOR, filesystem.mkfs)
    return BaseImageSpec(
        filesystem="" if is_raw(parameters) else filesystem.type.value,
        size=parameters.disk.size,
        mkfs_options=filesystem.mkfs,
        parts=parameters.disk.parts,
    )


def image_format(parameters: Parameters) -> FormatSpec:
    """The format that the captured disk holds."""
    machine = parameters.machine
    overlay = machine.backing_image is not BackingImage.NONE
    return FormatSpec(
        machine.format, machine.format_options, file_grows=machine.grows, overlay=overlay
    )


def image_layer(parameters: Parameters, backing: Path | None) -> ImageLayer | None:
    """The format between disk and guest, and the image `backing` below it; None for raw bytes."""
    machine, size = parameters.machine, parameters.disk.size
    if machine.format is ImageFormat.RAW:
        return None
    if machine.backing_image is BackingImage.NONE:
        return ImageLayer(machine.format, size)
    # A machine that is started without its backing image does not come up.
    return ImageLayer(machine.format, size, backing or _NOWHERE, machine.backing_image.format)


def earlier_log(parameters: Parameters) -> WalLayout | None:
    """The log of which the backing image has records; None if it holds none."""
    if not isinstance(parameters.workload, WalSettings):
        return None
    layout = wal_layout(parameters)
    return layout if layout.earlier else None


def is_raw(parameters: Parameters) -> bool:
    """Whether the log lies on the device itself."""
    return parameters.filesystem.type is FilesystemType.RAW


def is_bare(parameters: Parameters) -> bool:
    """Whether nothing lies between log and disk that leads to its bytes: no file system, no map."""
    return is_raw(parameters) and parameters.machine.format is ImageFormat.RAW


def capture_config(
    parameters: Parameters, binding: Binding, *, base: Path, log: Path, sockets: Path | None
) -> CaptureConfig:
    """The capture disk of a cell.

    Under cache=unsafe QEMU must drop the guest's flushes.  It does not do so on an NBD disk
    that offers flushes or FUA; so this one offers neither.  A file it does not flush.
    """
    machines = machines_of_disks(parameters)
    parts = zip(parameters.disk.parts, machines, strict=True) if len(machines) > 1 else ()
    return CaptureConfig(
        base=base,
        log=log,
        contract=parameters.disk.contract(),
        binding=binding,
        sockets=sockets,
        offer_flush=len(machines) > 1 or not _drops_on_nbd(parameters.machine),
        parts=tuple(part._replace(silent=_drops_on_nbd(machine)) for part, machine in parts),
        errors=parameters.disk.errors,
        slow=isinstance(parameters.workload, ProgramSettings) and parameters.disk.may_be_slow,
    )


def _drops_on_nbd(machine: MachineSettings) -> bool:
    return machine.aio is Aio.NBD and machine.host_cache.no_flush


def recovery_plan(parameters: Parameters, run_id: bytes, seed: int = 0) -> RecoveryPlan:
    """What recovery of this cell's disk consists of; `seed` is that of its trial.

    Without DAX, which changes nothing on the disk and which no block device has: states of
    memory are recovered on other disks, too.
    """
    run = Run(run_id, seed)
    workload = workload_of(parameters)
    contents = workload.contents(run)
    options = (option for option in parameters.filesystem.mount if not is_dax(option))
    host = root = None
    mount_point = MOUNT_POINT
    match place_of(parameters).files:
        case Files.HOST | Files.UNPACKED:
            tools = str(contents.tool.parent) if contents.tool is not None else ""
            host = HostRoot(
                contents.start,
                contents.environment,
                contents.visible,
                tools=tools,
                machine=MachineIdentity(seed),
                nodes=parameters.nodes,
            )
            if contents.root is not None:
                base, program = unpacked_root(contents.root).path, contents.program or ""
                host = replace(host, base=str(base), program=str(program))
            mount_point = f"/host{MOUNT_POINT}"
        case Files.IMAGE:
            root = GuestRoot(
                contents.start,
                contents.environment,
                program=contents.program is not None,
                machine=MachineIdentity(seed),
            )
            mount_point = f"{GuestRoot.MOUNT}{MOUNT_POINT}"
        case Files.GUEST | Files.MACHINE:
            pass
    return RecoveryPlan.of(
        filesystem="" if is_raw(parameters) else parameters.filesystem.type.value,
        mount_options=",".join(options),
        mount_point=mount_point,
        reader=workload.reader(run),
        device=parameters.machine.bus.device,
        host=host,
        root=root,
        image=parameters.machine.format,
        disks=tuple(
            PlanDisk(part.name, part.offset, part.size, part.word) for part in parameters.disk.parts
        ),
        layers=_layers_of(parameters),
    )


def _layers_of(parameters: Parameters) -> PlanLayers | None:
    stack = parameters.disk.stack
    if stack is None:
        return PlanLayers(_NETWORK, (), ()) if parameters.nodes else None
    words = [word for target in stack.targets for word in target.words]
    return PlanLayers(stack.modules, stack.helpers, tuple(words))


def contents_of(parameters: Parameters) -> Contents:
    """The files that the workload of a cell needs, whatever the run."""
    return workload_of(parameters).contents(Run(bytes(16)))


def is_pressed(parameters: Parameters) -> bool:
    """Whether the recorded kernel is made to write back early: one that powercut has booted."""
    place = place_of(parameters)
    if place.files is Files.MACHINE or place.machine == LOOP:
        return False
    return parameters.workload.writeback is Writeback.PRESSED


def write_cache_file(machine: MachineSettings) -> str:
    """The file to which the guest writes "write through"; empty if to none.

    `queue/write_cache` is the kernel's own belief (Documentation/ABI/stable/sysfs-block);
    `cache_type` of virtio_blk is the disk's (VIRTIO_BLK_F_CONFIG_WCE in the virtio
    specification).
    """
    files = {
        GuestWriteCache.AS_PROMISED: "",
        GuestWriteCache.WRITE_THROUGH: f"/sys/block/{machine.bus.device}/queue/write_cache",
        GuestWriteCache.SWITCHED_OFF: f"/sys/block/{machine.bus.device}/cache_type",
    }
    return files[machine.guest_write_cache]


def promised_of_disks(parameters: Parameters) -> dict[str, str]:
    """What the guest must see of each disk if the configuration took effect."""
    machine, *others = machines_of_disks(parameters)
    facts = promised_facts(machine)
    for disk, other in zip(parameters.disk.also, others, strict=True):
        facts |= {fact_of(disk.name, name): value for name, value in promised_facts(other).items()}
    return facts


def fact_of(disk: str, name: str) -> str:
    """What a fact of one of several disks is called, but for the first."""
    return f"disk {disk}: {name}"


def promised_facts(machine: MachineSettings) -> dict[str, str]:
    """The same of one disk.

    FUA: virtio-blk has no such request; libata ignores that of SATA disks unless it is told
    otherwise (libata.fua=0); a SCSI disk offers it if its mode page says DPOFUA, and Linux
    believes that only with a write cache.  An NVMe controller of QEMU always says that it has a
    volatile write cache, and every NVMe disk knows FUA.  Queues: those that it was told to have.
    A disk that is plugged in later was not there at boot.
    """
    further = {"queues": str(machine.queues)} if machine.queues else {}
    if machine.hotplug:
        further[DISKS_AT_BOOT] = NO_DISKS
    if machine.export is Export.VHOST_USER_BLK and machine.config_wce is not Switch.OFF:
        # The export's field is 0, whatever its cache (docs/findings).
        return {"write_cache": SysfsWriteCache[False], "fua": "0"}
    overridden = machine.guest_write_cache is not GuestWriteCache.AS_PROMISED
    offered = machine.host_cache.write_cache or machine.bus is Bus.NVME
    knows_fua = machine.bus in (Bus.NVME, Bus.VIRTIO_SCSI_FUA)
    return {
        "write_cache": SysfsWriteCache[offered and not overridden],
        "fua": str(int(offered and knows_fua)),
        **further,
    }


# Run ids: in every record of a run, and in no other run's.


def run_id_of(trial_seed: int) -> bytes:
    """The 16 bytes that mark the records of a trial.

    They follow from the seed, so that a trial can be repeated exactly.  Every trial starts
    from a freshly formatted disk; so two trials with one seed cannot meet on one.
    """
    return hashlib.sha256(f"powercut run id {trial_seed}".encode()).digest()[:16]
