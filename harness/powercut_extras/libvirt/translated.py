# SPDX-License-Identifier: Apache-2.0
"""Machines that other software defines, translated to a domain of libvirt's and read as one."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from xml.etree import ElementTree as ET

from powercut.model.errors import UsageError
from powercut.scenario.likeness import LeftOut, Likeness
from powercut_extras.libvirt.definition import read_likeness

LARGEST: Final = 1 << 20
"""Characters of a definition."""

DISKS_MAX: Final = 26
_BLOCK_MAX: Final = 1 << 21
_PREFIXES: Final = {"virtio": "vd", "ide": "hd", "nvme": "nvme"}
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,50}")


@dataclass(frozen=True)
class TranslatedDisk:
    """A disk in libvirt's words, called `name` where it comes from.

    Attributes of the driver that are empty are left out, sizes of blocks that are 0.  One on SCSI
    that is `alone` has a controller of its own.
    """

    bus: str
    image: str = "raw"
    cache: str = "none"
    io: str = ""
    discard: str = ""
    dedicated: bool = False
    queues: int = 0
    in_file: bool = False
    name: str = ""
    detect_zeroes: str = ""
    alone: bool = False
    logical: int = 0
    physical: int = 0


@dataclass(frozen=True)
class TranslatedMachine:
    """A machine; disks without a thread of their own share one if `shared` says so.

    `scsi` is the model of its SCSI controllers.  What its definition says besides is `left_out`.
    """

    name: str
    machine: str
    vcpus: int
    disks: tuple[TranslatedDisk, ...]
    cpu_mode: str = ""
    cpu_model: str = ""
    shared: bool = False
    scsi: str = "virtio-scsi"
    acpi: bool = True
    left_out: tuple[LeftOut, ...] = ()
    disks_left_out: tuple[LeftOut, ...] = ()
    differs: tuple[str, ...] = ()


def read_translated(machine: TranslatedMachine, connect: str | None) -> Likeness:
    """How machines are made that are like this one; its disks have their own names.

    Raises UsageError if none can be made, or if there are more disks than have names.
    """
    if machine.disks_left_out and not machine.disks:
        why = "; ".join(f"{one.what}: {one.why}" for one in machine.disks_left_out)
        raise UsageError(f"{machine.name}: no disk of it can be tested: {why}")
    text, names = domain_xml(machine)
    found = read_likeness(text, connect)

    def renamed(one: LeftOut) -> LeftOut:
        words = one.what.split(" ", 1)
        if words[0] != "disk" or len(words) == 1:
            return one
        dev, colon, rest = words[1].partition(":")
        return replace(one, what=f"disk {names.get(dev, dev)}{colon}{rest}")

    return replace(
        found,
        disks=tuple(replace(disk, name=names.get(disk.name, disk.name)) for disk in found.disks),
        differs=(*machine.differs, *found.differs),
        left_out=(*machine.left_out, *map(renamed, found.left_out)),
        disks_left_out=(*machine.disks_left_out, *map(renamed, found.disks_left_out)),
    )


def domain_xml(machine: TranslatedMachine) -> tuple[str, dict[str, str]]:
    """The definition of a domain, and the names of its disks by those that they have in it.

    Raises UsageError for more disks than have names.
    """
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
    for feature in (*(["acpi"] if machine.acpi else []), "apic"):
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
    names: dict[str, str] = {}
    controllers = 0
    for disk, thread in zip(machine.disks, threads, strict=True):
        prefix = _PREFIXES.get(disk.bus, "sd")
        number = used[prefix] = used.get(prefix, -1) + 1
        dev = f"nvme{number}n1" if prefix == "nvme" else prefix + string.ascii_lowercase[number]
        name = disk.name.lower()
        if _NAME.fullmatch(name) and name not in names.values():
            names[dev] = name
        controller = 0
        if disk.bus == "scsi" and disk.alone:
            controllers += 1
            controller = controllers
            _add_controller(devices, machine.scsi, controller, thread, disk.queues)
        _add(devices, disk, 0 if disk.bus == "scsi" else thread, dev, controller)
    if any(disk.bus == "scsi" and not disk.alone for disk in machine.disks):
        _add_controller(devices, machine.scsi, 0, 0, 0)
    return ET.tostring(domain, encoding="unicode"), names


def _threads(disks: Sequence[TranslatedDisk], *, shared: bool) -> list[int]:
    """The number of each disk's thread, 0 for none; only disks of virtio's have any, and those that
    are alone on a controller."""
    number = 1 if shared else 0
    found = []
    for disk in disks:
        if disk.bus != "virtio" and not disk.alone:
            found.append(0)
        elif disk.dedicated:
            number += 1
            found.append(number)
        else:
            found.append(1 if shared else 0)
    return found


def _add_controller(devices: ET.Element, model: str, number: int, thread: int, queues: int) -> None:
    made = ET.SubElement(devices, "controller", type="scsi", index=str(number), model=model)
    said = {"iothread": thread, "queues": queues}
    given = {key: str(value) for key, value in said.items() if value}
    if given:
        ET.SubElement(made, "driver", given)


def _add(
    devices: ET.Element, disk: TranslatedDisk, thread: int, name: str, controller: int
) -> None:
    kind = "file" if disk.in_file else "block"
    element = ET.SubElement(devices, "disk", type=kind, device="disk")
    driver = ET.SubElement(element, "driver", name="qemu", type=disk.image, cache=disk.cache)
    said = {
        "io": disk.io,
        "discard": disk.discard,
        "detect_zeroes": disk.detect_zeroes,
        "iothread": str(thread) if thread else "",
        "queues": str(disk.queues) if disk.queues and disk.bus == "virtio" else "",
    }
    for key, value in said.items():
        if value:
            driver.set(key, value)
    ET.SubElement(element, "target", dev=name, bus=disk.bus)
    sizes = {"logical_block_size": disk.logical, "physical_block_size": disk.physical}
    if blocks := {key: str(value) for key, value in sizes.items() if value}:
        ET.SubElement(element, "blockio", blocks)
    if controller:
        ET.SubElement(element, "address", type="drive", controller=str(controller))


def size_of(said: object) -> int:
    """Bytes of a block, as text or number; 0 for what is none."""
    text = str(said)
    size = int(text) if text.isascii() and text.isdecimal() and len(text) < 8 else 0
    return size if size <= _BLOCK_MAX else 0


def number_of(said: object, usual: int = 1) -> int:
    """A small number as text or number; the usual one for what is none."""
    text = str(said)
    return int(text) if text.isascii() and text.isdecimal() and 0 < len(text) < 4 else usual
