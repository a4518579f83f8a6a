# SPDX-License-Identifier: Apache-2.0
"""What keeps the bytes of a path, as far as the kernel tells an ordinary user.

From the path to its mount (/proc/self/mountinfo), from there to the block device, through
partitions, device-mapper, md and loop devices down to what is at the bottom of the stack
(/sys/dev/block).  What is said there is believed only where it can be: a disk attached by
SATA, a drive attached by PCIe.  A hypervisor tells its guest whatever it likes, USB
bridges call every flash stick a turning disk, and behind a RAID controller or a storage
network there may be anything; those are unknown until the user says what they are.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from powercut.model.errors import UsageError
from powercut_extras.probe.judge import Kind, Medium

MEMORY_FILESYSTEMS: Final = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"})
COPY_ON_WRITE: Final = frozenset({"btrfs", "zfs", "bcachefs", "f2fs", "nilfs2"})
"""File systems that do not overwrite in place; on XFS this is per file, and not ours."""

_MEMORY_DISKS: Final = ("ram", "zram")
_VIRTUAL_DISKS: Final = ("vd", "xvd")
_VIRTUAL_MODELS: Final = re.compile(
    r"qemu|vbox|virtual|vmware|msft|amazon elastic|google persistent|bhyve|persistentdisk", re.I
)
_DEPTH_MAX: Final = 8

_RPM_IN_MODEL: Final = re.compile(r"^(?:hitachi |hgst )?h[a-z]{2}(54|72|10|15)\d{2}", re.I)
"""Hitachi and HGST put the speed after three letters (HUS724040ALE640: 7200 rpm)."""

_RPM_KINDS: Final = {
    "54": Kind.HDD_5400,
    "72": Kind.HDD_7200,
    "10": Kind.HDD_10K,
    "15": Kind.HDD_15K,
}


@dataclass(frozen=True)
class Mount:
    """Where a path is mounted, and what."""

    point: str
    filesystem: str
    source: str
    device: str  # MAJOR:MINOR
    options: str


@dataclass(frozen=True)
class Disk:
    """What is at the bottom of the stack, as the kernel describes it."""

    name: str
    kind: Kind
    source: str  # where `kind` comes from, or why it is unknown
    model: str = ""
    rotational: bool | None = None
    write_cache: str = ""  # "write back" or "write through"


@dataclass(frozen=True)
class Place:
    """Everything found out about a path; `medium` is what follows from it."""

    path: str
    filesystem: str
    mount_point: str
    stack: tuple[str, ...]  # from the file system down
    disks: tuple[Disk, ...]
    virtual: str  # why this is taken for a virtual machine; empty if it is not
    medium: Medium


@dataclass(frozen=True)
class Host:
    """The kernel's own file systems."""

    sys: Path = Path("/sys")
    proc: Path = Path("/proc")


def look_up(path: Path, host: Host | None = None) -> Place:
    """What keeps the bytes of `path`, a directory or a block device.

    Raises UsageError if there is nothing at `path`.
    """
    host = host or Host()
    try:
        path = path.resolve(strict=True)
        status = path.stat()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    virtual = virtualisation(host)
    if stat.S_ISBLK(status.st_mode):
        device = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        stack, disks = _descend(device, host, virtual)
        medium = _medium(disks, stack)
        return Place(str(path), "", "", tuple(stack), tuple(disks), virtual, medium)
    mount = mount_of(path, (host.proc / "self/mountinfo").read_text(errors="replace"))
    stack, disks = _below(mount, host, virtual)
    return Place(
        path=str(path),
        filesystem=mount.filesystem,
        mount_point=mount.point,
        stack=tuple(stack),
        disks=tuple(disks),
        virtual=virtual,
        medium=_medium(disks, stack),
    )


def mount_of(path: Path, mountinfo: str) -> Mount:
    """The mount that `path` is on, by the longest mount point; of several, the last.

    Format: proc(5), "/proc/pid/mountinfo".
    """
    best = Mount("", "unknown", "", "0:0", "")
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, (kind, source, *options) = left.split(" "), right.split(" ")
        point = _unescape(fields[4])
        # What is mounted later hides what was there.
        if path.is_relative_to(point) and len(point) >= len(best.point):
            best = Mount(point, kind, _unescape(source), fields[2], " ".join(options))
    return best


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _below(mount: Mount, host: Host, virtual: str) -> tuple[list[str], list[Disk]]:
    """The stack below a mount."""
    if mount.filesystem in MEMORY_FILESYSTEMS:
        disk = Disk(mount.filesystem, Kind.MEMORY, "this file system lies in memory")
        return [mount.filesystem], [disk]
    device = mount.device
    if device.startswith("0:"):
        # btrfs has an anonymous number of its own; its source is the device.
        try:
            status = Path(mount.source).stat()
        except OSError:
            status = None
        if status is None or not stat.S_ISBLK(status.st_mode):
            why = f"{mount.filesystem} keeps its files elsewhere"
            return [mount.filesystem], [Disk(mount.source, Kind.UNKNOWN, why)]
        device = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    stack, disks = _descend(device, host, virtual)
    return [mount.filesystem, *stack], disks


def _descend(device: str, host: Host, virtual: str, depth: int = 0) -> tuple[list[str], list[Disk]]:
    """From a block device to the disks that it consists of."""
    try:
        folder = (host.sys / "dev/block" / device).resolve(strict=True)
    except OSError:
        return [device], [Disk(device, Kind.UNKNOWN, "the kernel does not describe this device")]
    return _descend_from(folder, host, virtual, depth)


def _descend_from(
    folder: Path, host: Host, virtual: str, depth: int
) -> tuple[list[str], list[Disk]]:
    name = folder.name
    if (folder / "partition").exists():
        stack, disks = _descend_from(folder.parent, host, virtual, depth)
        return [name, *stack], disks
    if depth > _DEPTH_MAX:
        return [name], [Disk(name, Kind.UNKNOWN, "the stack below is too deep")]
    backing = _read(folder / "loop/backing_file")
    if backing:
        return _below_loop(name, backing, host)
    slaves = sorted((folder / "slaves").iterdir()) if (folder / "slaves").is_dir() else []
    if not slaves:
        return [name], [_disk(folder, virtual)]
    stack, disks = [name], []
    for slave in slaves:
        below, found = _descend_from(slave.resolve(), host, virtual, depth + 1)
        stack += below
        disks += found
    return stack, disks


def _below_loop(name: str, backing: str, host: Host) -> tuple[list[str], list[Disk]]:
    try:
        place = look_up(Path(backing).parent, host)
    except UsageError:
        return [name], [Disk(name, Kind.UNKNOWN, f"its file {backing} is not to be found")]
    return [name, backing, *place.stack], list(place.disks)


def _disk(folder: Path, virtual: str) -> Disk:
    """What is at the bottom, and what can be believed of it."""
    name = folder.name
    model = _read(folder / "device/model")
    rotational = {"0": False, "1": True}.get(_read(folder / "queue/rotational"))
    disk = Disk(name, Kind.UNKNOWN, "", model, rotational, _read(folder / "queue/write_cache"))
    kind, source = _kind(folder, disk, virtual)
    return replace(disk, kind=kind, source=source)


def _kind(folder: Path, disk: Disk, virtual: str) -> tuple[Kind, str]:
    if re.fullmatch(rf"({'|'.join(_MEMORY_DISKS)})\d+", disk.name):
        return Kind.MEMORY, "this disk lies in memory"
    if virtual or disk.name.startswith(_VIRTUAL_DISKS) or _VIRTUAL_MODELS.search(disk.model):
        return Kind.UNKNOWN, "a hypervisor made this disk: what is below cannot be seen from here"
    if disk.name.startswith("nvme"):
        transport = _read(folder / "device/transport")
        if transport in ("", "pcie"):
            return Kind.NVME, "an NVMe drive in this machine"
        return Kind.UNKNOWN, f"an NVMe drive at the far end of {transport}"
    if re.search(r"/ata\d+/", str(folder)):
        return _sata_kind(disk)
    return Kind.UNKNOWN, "not attached by SATA or PCIe, so that anything may be behind it"


def _sata_kind(disk: Disk) -> tuple[Kind, str]:
    if disk.rotational is False:
        return Kind.SATA_SSD, "a SATA disk that does not turn"
    if disk.rotational is None:
        return Kind.UNKNOWN, "the kernel does not say whether it turns"
    match = _RPM_IN_MODEL.match(disk.model)
    if match:
        return _RPM_KINDS[match[1]], f"by its model name, {disk.model}"
    return Kind.HDD, "a SATA disk that turns, at a speed that only root may ask for"


def _medium(disks: list[Disk], stack: list[str]) -> Medium:
    """One medium for all disks; unknown if they are of several kinds."""
    kinds = {disk.kind for disk in disks}
    caches = {disk.write_cache for disk in disks}
    cache = None
    if "write back" in caches:
        cache = True
    elif caches == {"write through"}:
        cache = False
    if len(kinds) == 1:
        kind, source = disks[0].kind, disks[0].source
    else:
        kind, source = Kind.UNKNOWN, "several kinds of disks, of which the fastest may answer"
    return Medium(kind, source, None, cache, not COPY_ON_WRITE.isdisjoint(stack))


def virtualisation(host: Host) -> str:
    """Why this machine is taken for a virtual one; empty if it is not."""
    hints = []
    flags = re.search(r"^(?:flags|Features)\s*:(.*)$", _read(host.proc / "cpuinfo"), re.MULTILINE)
    if flags and "hypervisor" in flags[1].split():
        hints.append("the CPU says so")
    for file in ("class/dmi/id/sys_vendor", "class/dmi/id/product_name"):
        text = _read(host.sys / file)
        if _VIRTUAL_MODELS.search(text) or re.search(r"kvm|xen|innotek|parallels", text, re.I):
            hints.append(text)
    hypervisor = _read(host.sys / "hypervisor/type")
    if hypervisor:
        hints.append(hypervisor)
    return ", ".join(dict.fromkeys(hints))


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
