# SPDX-License-Identifier: Apache-2.0
"""A domain's XML for machines that other software defines: as much as matters to their disks."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree as ET

from powercut.model.errors import UsageError

LARGEST: Final = 1 << 20
"""Characters of a definition."""

DISKS_MAX: Final = 26
_PREFIXES: Final = {"virtio": "vd", "ide": "hd"}


@dataclass(frozen=True)
class TranslatedDisk:
    """A disk in libvirt's words.  Attributes of the driver that are empty are left out."""

    bus: str
    image: str = "raw"
    cache: str = "none"
    io: str = ""
    discard: str = ""
    dedicated: bool = False
    queues: int = 0
    in_file: bool = False


@dataclass(frozen=True)
class TranslatedMachine:
    """A machine; disks without a thread of their own share one if `shared` says so."""

    name: str
    machine: str
    vcpus: int
    disks: tuple[TranslatedDisk, ...]
    cpu_mode: str = ""
    cpu_model: str = ""
    shared: bool = False


def domain_xml(machine: TranslatedMachine) -> str:
    """The definition of a domain.  Raises UsageError for more disks than have names."""
    if len(machine.disks) > DISKS_MAX:
        raise UsageError(f"{machine.name}: more than {DISKS_MAX} disks")
    domain = ET.Element("domain", type="kvm")
    ET.SubElement(domain, "name").text = machine.name
    ET.SubElement(domain, "vcpu").text = str(machine.vcpus)
    kind = ET.SubElement(
        ET.SubElement(domain, "os"), "type", arch="x86_64", machine=machine.machine
    )
    kind.text = "hvm"
    features = ET.SubElement(domain, "features")
    for feature in ("acpi", "apic"):
        ET.SubElement(features, feature)
    if machine.cpu_mode:
        cpu = ET.SubElement(domain, "cpu", mode=machine.cpu_mode)
        if machine.cpu_model:
            ET.SubElement(cpu, "model").text = machine.cpu_model
    threads = _threads(machine.disks, shared=machine.shared)
    if any(threads):
        ET.SubElement(domain, "iothreads").text = str(max(threads))
    devices = ET.SubElement(domain, "devices")
    used: dict[str, int] = {}
    for disk, thread in zip(machine.disks, threads, strict=True):
        prefix = _PREFIXES.get(disk.bus, "sd")
        number = used[prefix] = used.get(prefix, -1) + 1
        _add(devices, disk, thread, f"{prefix}{string.ascii_lowercase[number]}")
    if any(disk.bus == "scsi" for disk in machine.disks):
        ET.SubElement(devices, "controller", type="scsi", index="0", model="virtio-scsi")
    return ET.tostring(domain, encoding="unicode")


def _threads(disks: Sequence[TranslatedDisk], *, shared: bool) -> list[int]:
    """The number of each disk's thread, 0 for none; only virtio's disks have any."""
    number = 1 if shared else 0
    found = []
    for disk in disks:
        if disk.bus != "virtio":
            found.append(0)
        elif disk.dedicated:
            number += 1
            found.append(number)
        else:
            found.append(1 if shared else 0)
    return found


def _add(devices: ET.Element, disk: TranslatedDisk, thread: int, name: str) -> None:
    kind = "file" if disk.in_file else "block"
    element = ET.SubElement(devices, "disk", type=kind, device="disk")
    driver = ET.SubElement(element, "driver", name="qemu", type=disk.image, cache=disk.cache)
    said = {
        "io": disk.io,
        "discard": disk.discard,
        "iothread": str(thread) if thread else "",
        "queues": str(disk.queues) if disk.queues and disk.bus == "virtio" else "",
    }
    for key, value in said.items():
        if value:
            driver.set(key, value)
    ET.SubElement(element, "target", dev=name, bus=disk.bus)


def number_of(said: object, usual: int = 1) -> int:
    """A small number as text or number; the usual one for what is none."""
    text = str(said)
    return int(text) if text.isascii() and text.isdecimal() and 0 < len(text) < 4 else usual
