# SPDX-License-Identifier: Apache-2.0
"""QEMU's command line as a pure function of the machine's description.

Nothing is left to QEMU's defaults or to the user's configuration of it.  The disk is
two nodes, `disk` (raw or another format) above `storage` (NBD, file or null), and a
device on a bus; or, on a pmem bus, a file that is mapped into the guest's memory.
Cache modes are what `-drive cache=` means (qemu(1)), spelt out: `write-cache` of the
device, `cache.direct` and `cache.no-flush` of both nodes, since nodes that are defined
apart do not inherit them.

cache=unsafe: QEMU's file driver skips the fdatasync.  Its NBD driver sends flushes to
the server whatever `cache.no-flush` says (docs/adding-a-machine.md has the
measurement), unless the server offers no flush.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from powercut.machine.port import (
    LINES,
    FileDisk,
    GuestImage,
    ImageLayer,
    NbdDisk,
    NbdFile,
    guest_words,
)
from powercut.machine.qemu.devices import DiskDevice, DiskDevices, disk_devices
from powercut.machine.qemu.spec import QemuSpec
from powercut.model.machine import Accelerator, Bus, Export, HostCache

ROOT_SERIAL: Final = "powercut-root"
PROGRAM_SERIAL: Final = "powercut-program"
_PMEM_ALIGNMENT_MIB: Final = 1024
"""Address space that QEMU may lose by aligning a memory device (to a page of up to 1 GiB)."""


@dataclass(frozen=True)
class NullDisk:
    """A disk of `size` bytes that reads as zeroes: what a RAM template is made with."""

    size: int


@dataclass(frozen=True)
class TemplateRam:
    """Guest RAM in a file.

    `saving`: QEMU writes to the file.  Otherwise it maps the file privately and waits
    for the state that belongs to it (`-incoming defer`).
    """

    path: Path
    saving: bool


def build_argv(
    spec: QemuSpec,
    qemu: Path,
    *,
    ram: TemplateRam | None = None,
    disk: NullDisk | None = None,
    tsc_khz: int | None = None,
    waits: bool = False,
) -> list[str]:
    """The command line for `spec`.

    The guest's console goes to QEMU's standard output; `disk` stands in for the disk of `spec`;
    `tsc_khz` is the frequency of the host's time-stamp counter.  One that `waits` boots nothing: it
    is told later where its guest comes from.
    """
    return [
        str(qemu),
        *("-nodefaults", "-no-user-config"),
        *("-display", "none"),
        "-no-reboot",  # a panic, or a power-off without ACPI, ends QEMU
        *_sandbox(),
        *_board(spec, ram, waits=waits),
        *_kernel(spec, tsc_khz),
        *_ports(spec),
        *_storage(spec, disk),
    ]


def kernel_command_line(spec: QemuSpec, tsc_khz: int | None = None) -> str:
    """What the guest's kernel is told."""
    return guest_words(
        *spec.buses,
        emulated=spec.accelerator is Accelerator.TCG,
        cpus=spec.cpus,
        hotplug=spec.hotplug,
        tsc_khz=tsc_khz,
        added=spec.kernel_arguments,
    )


def _sandbox() -> list[str]:
    # QEMU neither starts programs nor changes its privileges; everything that it
    # connects to or opens is named on this command line or passed over QMP.
    denied = ("obsolete", "elevateprivileges", "spawn", "resourcecontrol")
    return ["-sandbox", ",".join(["on", *(f"{what}=deny" for what in denied)])]


def _board(spec: QemuSpec, ram: TemplateRam | None, *, waits: bool) -> list[str]:
    kvm = spec.accelerator is Accelerator.KVM
    shared = spec.export is Export.VHOST_USER_BLK
    board = [spec.board, *(["memory-backend=ram"] if ram or shared else [])]
    memory = f"{spec.memory_mib}M"
    if spec.bus is Bus.NVDIMM:
        board.append("nvdimm=on")
    if spec.bus.pmem:
        room_mib = (_pmem_size(spec) >> 20) + _PMEM_ALIGNMENT_MIB
        memory += f",slots=1,maxmem={spec.memory_mib + room_mib}M"
    argv = [
        *("-M", ",".join(board)),
        *("-accel", "kvm" if kvm else "tcg,thread=multi"),
        *("-cpu", "host" if kvm else "max"),
        *("-m", memory),
        *("-smp", str(spec.cpus)),
    ]
    if shared:
        # The daemon reads the guest's requests in the guest's memory.
        argv += ["-object", f"memory-backend-memfd,id=ram,size={spec.memory_mib}M,share=on"]
    elif ram:
        share = "on" if ram.saving else "off"
        backend = f"memory-backend-file,id=ram,size={spec.memory_mib}M,share={share}"
        argv += ["-object", f"{backend},mem-path={_escape(ram.path)}"]
        waits = waits or not ram.saving
    return [*argv, *(("-incoming", "defer") if waits else ())]


def _kernel(spec: QemuSpec, tsc_khz: int | None) -> list[str]:
    guest: GuestImage = spec.guest
    return [
        *("-kernel", str(guest.kernel)),
        *("-initrd", str(guest.initramfs)),
        *("-append", kernel_command_line(spec, tsc_khz)),
    ]


def _ports(spec: QemuSpec) -> list[str]:
    return [
        *("-chardev", f"socket,id=qmp,path={_escape(spec.qmp)}"),
        *("-mon", "chardev=qmp,mode=control"),
        *("-chardev", "file,id=console,append=on,path=/proc/self/fd/1"),
        *("-device", "isa-serial,chardev=console"),
        *("-device", "virtio-serial-pci"),
        *("-chardev", f"socket,id=ctl,path={_escape(spec.channel)}"),
        *("-device", "virtserialport,chardev=ctl,name=ctl"),
        *(_root(spec, spec.root) if spec.root else ()),
    ]


def _root(spec: QemuSpec, image: Path) -> list[str]:
    """A root file system, known by its serial number, a program's folder in it, and the port for
    its lines.

    QEMU listens there, as whoever makes a template has nobody to speak to.
    """
    lines = _escape(spec.channel.with_name(LINES))
    return [
        *_read_only("root", image, ROOT_SERIAL, "1e"),
        *(_read_only("program", spec.program, PROGRAM_SERIAL, "1d") if spec.program else ()),
        *("-chardev", f"socket,id=lines,server=on,wait=off,path={lines}"),
        *("-device", "virtserialport,chardev=lines,name=lines"),
    ]


def _read_only(name: str, image: Path, serial: str, address: str) -> list[str]:
    file = {"driver": "file", "filename": str(image), "read-only": True}
    node = {"driver": "raw", "file": f"{name}-file", "read-only": True, "node-name": name}
    return [
        *("-blockdev", json.dumps(file | {"node-name": f"{name}-file"})),
        *("-blockdev", json.dumps(node)),
        *("-device", f"virtio-blk-pci,drive={name},serial={serial},addr={address}"),
    ]


def _storage(spec: QemuSpec, stand_in: NullDisk | None) -> list[str]:
    if spec.export is Export.VHOST_USER_BLK:
        return _vhost_user(spec)
    if not spec.bus.pmem:
        disk = spec.disk if stand_in is None else stand_in
        return [*_disk(disk, spec.cache, spec.layer), *_device(spec), *_beside(spec, stand_in)]
    device = "nvdimm" if spec.bus is Bus.NVDIMM else "virtio-pmem-pci"
    backend = f"memory-backend-file,id=disk,share=on,size={_pmem_size(spec)}"
    return [
        *("-object", f"{backend},mem-path={_escape(_file(spec.disk))}"),
        *("-device", f"{device},memdev=disk"),
    ]


def _beside(spec: QemuSpec, stand_in: NullDisk | None) -> list[str]:
    argv: list[str] = []
    for number, one in enumerate(spec.beside, 1):
        disk = one.disk if stand_in is None else NullDisk(one.size)
        argv += _disk(disk, one.cache, None, number=number)
        device = DiskDevice(f"disk{number}", one.bus, one.cache, one.serial, one.queueing)
        argv += disk_devices(device, spec.buses[:number]).argv
    return argv


def _vhost_user(spec: QemuSpec) -> list[str]:
    """The device alone: the disk is the daemon's, whose socket stands where the disk's stood."""
    wce = "" if spec.config_wce is None else f",config-wce={'on' if spec.config_wce else 'off'}"
    return [
        *("-chardev", f"socket,id=export,path={_escape(_file(spec.disk))}"),
        *("-device", f"vhost-user-blk-pci,chardev=export{wce}"),
    ]


def _pmem_size(spec: QemuSpec) -> int:
    if isinstance(spec.disk, NbdDisk) or spec.disk.size is None:
        raise ValueError("memory is a file of known size")
    return spec.disk.size


def _file(disk: NbdDisk | FileDisk | NbdFile) -> Path:
    """The file; where one of NBD's will be is known when the machine is started."""
    return disk.path if isinstance(disk, FileDisk) else disk.socket


def _disk(
    disk: NbdDisk | FileDisk | NbdFile | NullDisk,
    cache: HostCache,
    layer: ImageLayer | None,
    *,
    number: int = 0,
) -> list[str]:
    suffix = f"{number or ''}"
    modes = {"cache": {"direct": cache.direct, "no-flush": cache.no_flush}}
    storage: dict[str, object] = {"node-name": f"storage{suffix}"}
    window: dict[str, object] = {}
    driver = layer.format.value if layer else "raw"
    match disk:
        case NbdDisk():
            server = {"type": "unix", "path": str(disk.socket)}
            named = {"export": disk.export} if disk.export else {}
            storage |= {"driver": "nbd", "server": server, **named, **modes}
        case FileDisk() | NbdFile():
            storage |= {"driver": "file", "filename": str(_file(disk)), "aio": disk.aio.value}
            storage |= modes
            if isinstance(disk, FileDisk) and disk.serves_part:
                # Others are open beside it in the same file, and none writes where another does.
                storage |= {"locking": "off"}
                window = {"offset": disk.offset, "size": disk.size}
        case NullDisk():
            storage |= {"driver": "null-co", "size": disk.size, "read-zeroes": True}
            # A template is made of the guest, not of what lies below its device.
            driver, modes = "raw", {}
    image: dict[str, object] = {"node-name": f"disk{suffix}", "driver": driver}
    image |= {"file": f"storage{suffix}", **modes, **window}
    below: list[dict[str, object]] = []
    if layer and driver == layer.format.value:
        image |= layer.format.alone
        below = backing_nodes(layer)
        image |= {"backing": "backing"} if below else {}
    nodes = (*below, storage, image)
    return [word for node in nodes for word in ("-blockdev", json.dumps(node))]


def backing_nodes(layer: ImageLayer) -> list[dict[str, object]]:
    """The node `backing` and its file; none if the image lies over nothing.

    The image itself names no file: QEMU opens the one that it is told of.
    """
    if layer.backing is None:
        return []
    read_only: dict[str, object] = {"read-only": True}
    file = {"driver": "file", "filename": str(layer.backing), "node-name": "backing-file"}
    node = {"driver": layer.backing_format.value, "file": "backing-file", "node-name": "backing"}
    return [{**file, **read_only}, {**node, **read_only, **layer.backing_format.alone}]


def _device(spec: QemuSpec) -> list[str]:
    """The first disk as the guest finds it, behind its controller; that alone if it comes later."""
    devices = first_disk(spec)
    return devices.around if spec.hotplug else devices.argv


def first_disk(spec: QemuSpec) -> DiskDevices:
    """The devices of the first disk under test."""
    wce, queueing = spec.config_wce, spec.queueing
    first = DiskDevice("disk", spec.bus, spec.cache, spec.serial, queueing, config_wce=wce)
    return disk_devices(first)


def _escape(path: Path) -> str:
    """A path inside an option whose values are separated by commas."""
    return str(path).replace(",", ",,")
