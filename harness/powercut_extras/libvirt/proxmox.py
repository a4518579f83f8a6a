# SPDX-License-Identifier: Apache-2.0
"""A virtual machine of Proxmox VE, translated to a domain of libvirt: what matters to its disks.

The text is /etc/pve/qemu-server/VMID.conf, or what `qm config VMID` prints (qm.conf(5)): lines
`key: value`; sections that begin with `[` are snapshots.  Where a disk says nothing, Proxmox has
cache=none, io_uring and detect_zeroes=on, and the controller `lsi` for SCSI.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final
from xml.etree import ElementTree as ET

from powercut.model.errors import UsageError
from powercut.scenario.likeness import Likeness
from powercut_extras.libvirt.definition import read_likeness

_LARGEST: Final = 1 << 20
_LINE: Final = re.compile(r"([a-z][a-z0-9_]*):\s*(.*)")
_DISK: Final = re.compile(r"(virtio|scsi|sata|ide)(\d+)")
_BUSES: Final = {"virtio": "vd", "scsi": "sd", "sata": "sd", "ide": "hd"}
_SCSI: Final = {"virtio-scsi-pci": "virtio-scsi", "virtio-scsi-single": "virtio-scsi"}
_DIFFERS: Final = "QEMU: Proxmox has a build of its own; this host's is used"


def read_proxmox(text: str, connect: str | None) -> Likeness:
    """How machines are made that are like the one defined by `text`.

    Raises UsageError for what is no such definition, or has no disk that can be made here.
    """
    domain = ET.tostring(_domain(_settings(text)), encoding="unicode")
    likeness = read_likeness(domain, connect)
    return replace(likeness, differs=(_DIFFERS, *likeness.differs))


def _settings(text: str) -> dict[str, str]:
    if len(text) > _LARGEST:
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


def _domain(settings: dict[str, str]) -> ET.Element:
    domain = ET.Element("domain", type="kvm")
    ET.SubElement(domain, "name").text = settings.get("name", "machine")
    ET.SubElement(domain, "vcpu").text = str(
        _number(settings.get("sockets", "1")) * _number(settings.get("cores", "1"))
    )
    machine = settings.get("machine", "pc").partition(",")[0].partition("+")[0]
    kind = ET.SubElement(ET.SubElement(domain, "os"), "type", arch="x86_64", machine=machine)
    kind.text = "hvm"
    features = ET.SubElement(domain, "features")
    if settings.get("acpi", "1") != "0":
        ET.SubElement(features, "acpi")
    ET.SubElement(features, "apic")
    devices = ET.SubElement(domain, "devices")
    disks = [key for key in settings if _DISK.fullmatch(key)]
    threads = [key for key in disks if _options(settings[key])[1].get("iothread") == "1"]
    if threads:
        ET.SubElement(domain, "iothreads").text = str(len(threads))
    for key in disks:
        thread = threads.index(key) + 1 if key in threads else 0
        _add_disk(devices, key, settings[key], thread)
    model = settings.get("scsihw", "lsi")
    ET.SubElement(devices, "controller", type="scsi", index="0", model=_SCSI.get(model, model))
    return domain


def _add_disk(devices: ET.Element, key: str, value: str, thread: int) -> None:
    volume, options = _options(value)
    if volume == "none" or options.get("media") == "cdrom":
        return
    match = _DISK.fullmatch(key)
    assert match is not None, "the caller looked"
    bus, number = match[1], int(match[2])
    in_file = re.search(r"\.(raw|qcow2|vmdk|qed|vdi|vpc)$", volume)
    image = options.get("format") or (in_file[1] if in_file else "raw")
    disk = ET.SubElement(devices, "disk", type="file" if in_file else "block", device="disk")
    driver = ET.SubElement(disk, "driver", name="qemu", type=image)
    driver.set("cache", options.get("cache", "none"))
    driver.set("io", options.get("aio", "io_uring"))
    discard = options.get("discard") == "on"
    driver.set("discard", "unmap" if discard else "ignore")
    zeroes = options.get("detect_zeroes", "1") in ("1", "on")
    driver.set("detect_zeroes", ("unmap" if discard else "on") if zeroes else "off")
    if thread and bus == "virtio":
        driver.set("iothread", str(thread))
    target = f"{_BUSES[bus]}{chr(ord('a') + number % 26)}"
    ET.SubElement(disk, "target", dev=target, bus=bus)


def _options(value: str) -> tuple[str, dict[str, str]]:
    """The volume, and what is said of it."""
    volume, *more = value.split(",")
    pairs = (one.partition("=") for one in more)
    return volume.removeprefix("file="), {name: said for name, _, said in pairs}


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 4 else 1
