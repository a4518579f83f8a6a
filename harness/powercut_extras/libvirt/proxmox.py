# SPDX-License-Identifier: Apache-2.0
"""A virtual machine of Proxmox VE, translated to a domain of libvirt: what matters to its disks.

The text is /etc/pve/qemu-server/VMID.conf, or what `qm config VMID` prints (qm.conf(5)): lines
`key: value`; sections that begin with `[` are snapshots.  Where a disk says nothing, Proxmox has
cache=none, io_uring and detect_zeroes=on, and the controller `lsi` for SCSI; an I/O thread of a
SCSI disk needs the controller virtio-scsi-single, which each disk then has for itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from powercut.model.errors import UsageError
from powercut.scenario.likeness import LeftOut, Likeness
from powercut_extras.libvirt.meaning import (
    BESIDE,
    CARRIED,
    DECIDES,
    ELSEWHERE,
    ERRORS,
    SLOWED,
    Fate,
    Meaning,
    left_out,
    rows,
)
from powercut_extras.libvirt.translated import (
    LARGEST,
    TranslatedDisk,
    TranslatedMachine,
    number_of,
    read_translated,
)

_LINE: Final = re.compile(r"([a-z][a-z0-9_-]*):\s*(.*)")
_DISK: Final = re.compile(r"(virtio|scsi|sata|ide)(\d+)")
_SCSI: Final = {"virtio-scsi-pci": "virtio-scsi", "virtio-scsi-single": "virtio-scsi"}
_DIFFERS: Final = "QEMU: Proxmox has a build of its own; this host's is used"

_TOLD: Final = Meaning(Fate.NO_EFFECT, "what the guest is told of the disk")
_KEPT: Final = Meaning(Fate.NO_EFFECT, "what Proxmox itself does with the volume, and when")

DISK: Final = {
    **rows(CARRIED, "disk/%", "file cache aio discard detect_zeroes format iothread queues"),
    **rows(DECIDES, "disk/%", "media ro snapshot"),
    **rows(_TOLD, "disk/%", "size serial wwn model ssd cyls heads secs trans product vendor"),
    **rows(_KEPT, "disk/%", "backup replicate import-from"),
    "disk/shared": Meaning(Fate.NO_EFFECT, "that the volume is on all nodes"),
    **rows(ERRORS, "disk/%", "rerror werror"),
    "disk/scsiblock": Meaning(Fate.LEFT_OUT, "the guest's SCSI commands reach the host", ("0",)),
    **rows(SLOWED, "disk/%", "bps bps_rd bps_wr iops iops_rd iops_wr mbps mbps_rd mbps_wr"),
    **rows(SLOWED, "disk/%", "bps_max_length bps_rd_max_length bps_wr_max_length"),
    **rows(SLOWED, "disk/%", "iops_max iops_rd_max iops_wr_max mbps_max mbps_rd_max mbps_wr_max"),
    **rows(SLOWED, "disk/%", "iops_max_length iops_rd_max_length iops_wr_max_length"),
}
"""Options of a disk."""

MACHINE: Final = {
    **rows(CARRIED, "vm/%", "name cores sockets machine acpi scsihw virtio scsi sata ide"),
    "vm/args": Meaning(Fate.LEFT_OUT, "arguments that QEMU gets past Proxmox"),
    **rows(BESIDE, "vm/%", "hostpci usb virtiofs"),
    **rows(ELSEWHERE, "vm/%", "affinity agent amd-sev arch archive audio autostart balloon bios"),
    **rows(ELSEWHERE, "vm/%", "boot bootdisk cdrom cicustom cipassword citype ciupgrade ciuser"),
    **rows(ELSEWHERE, "vm/%", "cpu cpulimit cpuunits description digest efidisk freeze hookscript"),
    **rows(ELSEWHERE, "vm/%", "hotplug hugepages intel-tdx ipconfig ivshmem keephugepages"),
    **rows(ELSEWHERE, "vm/%", "keyboard kvm localtime lock memory meta migrate_downtime"),
    **rows(ELSEWHERE, "vm/%", "migrate_speed nameserver net numa onboot ostype parallel parent"),
    **rows(ELSEWHERE, "vm/%", "protection reboot rng running-nets-host-mtu runningcpu"),
    **rows(ELSEWHERE, "vm/%", "runningmachine searchdomain serial shares smbios smp snaptime"),
    **rows(ELSEWHERE, "vm/%", "spice_enhancements sshkeys startdate startup tablet tags tdf"),
    **rows(ELSEWHERE, "vm/%", "template tpmstate unused vcpus vga vmgenid vmstate vmstatestorage"),
    **rows(ELSEWHERE, "vm/%", "watchdog"),
}
"""Keys, without their numbers.  `args` and what follows `hostpci` may be secrets: only that they
are there is said."""

_UNSAID: Final = ("args", "hostpci", "usb", "virtiofs")


def is_proxmox(text: str) -> bool:
    """Whether lines of the text are keys of a machine of Proxmox's with a disk."""
    return re.search(r"(?m)^(virtio|scsi|sata|ide)\d+: \S", text[:LARGEST]) is not None


def read_proxmox(text: str, connect: str | None) -> Likeness:
    """How machines are made that are like the one defined by `text`.

    Raises UsageError for what is no such definition, or has no disk that can be made here.
    """
    settings = _settings(text)
    disks = {key: _options(settings[key]) for key in settings if _DISK.fullmatch(key)}
    keys = ((re.sub(r"\d+$", "", key), value) for key, value in settings.items())
    said = ((f"vm/{key}", "" if key in _UNSAID else value) for key, value in keys)
    model = settings.get("scsihw", "lsi")
    left, missing, others = [*left_out(MACHINE, said, "machine")], [], []
    made = []
    for key, options in disks.items():
        if options["file"] == "none" or options.get("media") == "cdrom":
            continue
        if options.get("ro") == "1":
            others.append(f"disk {key} is not tested: it is read-only")
            continue
        left += left_out(
            DISK, ((f"disk/{name}", value) for name, value in options.items()), f"disk {key}"
        )
        if options.get("snapshot") == "1":
            why = "snapshot: all that is written to it is discarded when the machine stops"
            missing.append(LeftOut(f"disk {key}", why))
            continue
        left += _without_thread(key, options, model)
        made.append(_disk(key, options, model))
    machine = TranslatedMachine(
        name=settings.get("name", "machine"),
        machine=settings.get("machine", "pc").partition(",")[0].partition("+")[0],
        vcpus=number_of(settings.get("sockets", "1")) * number_of(settings.get("cores", "1")),
        disks=tuple(made),
        scsi=_SCSI.get(model, model),
        acpi=settings.get("acpi", "1") != "0",
        left_out=tuple(left),
        disks_left_out=tuple(missing),
        differs=(_DIFFERS, *others),
    )
    return read_translated(machine, connect)


def _settings(text: str) -> dict[str, str]:
    if len(text) > LARGEST:
        raise UsageError("a definition of a machine is short")
    found: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("["):
            break
        match = _LINE.fullmatch(line.strip())
        if match:
            found[match[1]] = match[2]
        elif line.strip() and not line.startswith("#"):
            raise UsageError(f"this is no definition of a machine of Proxmox: {line[:60]!r}")
    if not any(_DISK.fullmatch(key) for key in found):
        raise UsageError("this is neither a domain's XML nor a machine of Proxmox with a disk")
    return found


def _without_thread(key: str, options: Mapping[str, str], controller: str) -> Iterator[LeftOut]:
    if options.get("iothread") == "1" and not key.startswith("virtio"):
        if not key.startswith("scsi"):
            yield LeftOut(f"disk {key}: iothread=1", "only virtio and SCSI have I/O threads")
        elif controller != "virtio-scsi-single":
            yield LeftOut(f"disk {key}: iothread=1", f"Proxmox gives none to disks on {controller}")


def _disk(key: str, options: Mapping[str, str], controller: str) -> TranslatedDisk:
    match = _DISK.fullmatch(key)
    assert match is not None, "the caller looked"
    in_file = re.search(r"\.(raw|qcow2|vmdk|qed|vdi|vpc)$", options["file"])
    discard = options.get("discard") == "on"
    zeroes = options.get("detect_zeroes", "1") in ("1", "on")
    alone = match[1] == "scsi" and controller == "virtio-scsi-single"
    return TranslatedDisk(
        bus=match[1],
        image=options.get("format") or (in_file[1] if in_file else "raw"),
        cache=options.get("cache", "none"),
        io=options.get("aio", "io_uring"),
        discard="unmap" if discard else "ignore",
        detect_zeroes=("unmap" if discard else "on") if zeroes else "off",
        dedicated=options.get("iothread") == "1" and (alone or match[1] == "virtio"),
        queues=number_of(options.get("queues", "0"), 0) if alone else 0,
        in_file=in_file is not None,
        name=key,
        alone=alone,
    )


def _options(value: str) -> dict[str, str]:
    """What is said of a volume; the volume itself is `file`."""
    volume, *more = value.split(",")
    pairs = (one.partition("=") for one in more)
    return {"file": volume.removeprefix("file="), **{name: said for name, _, said in pairs}}
