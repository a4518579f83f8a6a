# SPDX-License-Identifier: Apache-2.0
"""Somebody's domain, read for what matters to its disks, and nothing else.

A definition may come from a stranger.  What is kept of it is named here, element by element
(libvirt.org/formatdomain.html); paths of disks, networks, devices of the host, command lines of
QEMU and secrets are not among it.  The only file that is named is the emulator, as `machine.qemu`.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Final
from xml.etree import ElementTree as ET

from powercut.machine.qemu.build import PROGRAM
from powercut.model.errors import UsageError
from powercut.model.machine import Aio, Bus, CacheMode, ImageFormat
from powercut.scenario.likeness import DiskLikeness, LeftOut, Likeness
from powercut_extras.libvirt.domain import BUSES, Kept
from powercut_extras.libvirt.elements import (
    BESIDE,
    BLOCKS,
    CONTROLLED,
    CONTROLLER,
    DISK,
    MEMORY,
    NAMESPACE,
    OTHER_HYPERVISORS,
    QEMU,
    said_below,
)
from powercut_extras.libvirt.meaning import Fate, left_out

_LARGEST: Final = 1 << 20
_DRIVER: Final = frozenset(
    path.removeprefix("disk/driver@")
    for path, row in DISK.items()
    if path.startswith("disk/driver@") and row.fate is Fate.CARRIED
) - {"type", "cache", "io"}
"""Attributes of a disk's driver that say how its requests travel, besides those of settings."""

_WITH_DISKS: Final = ("scsi", "sata", "ide", "usb", "nvme")
_NO_IMAGE: Final = {
    "vhostuser": "another process serves it by vhost-user, and what it caches is not said",
    "vhostvdpa": "hardware serves it (vDPA), and what it caches is not said",
    "nvme": "a controller of the host that QEMU drives itself",
    "dir": "a folder that QEMU shows as a disk",
}
"""Types of disks."""

_CONTROLLER: Final = frozenset({"type", "model"})
_FEATURES: Final = frozenset({"acpi", "apic", "pae", "hap", "ioapic", "pmu", "vmport"})
_CPUS_MAX: Final = 64


def read_likeness(text: str, connect: str | None) -> Likeness:
    """How machines are made that are like the domain defined by `text`.

    Raises UsageError for what is no definition of a domain that can be made here.
    """
    domain = _parsed(text)
    name = _text_of(domain, "name") or "domain"
    kind = domain.find("os/type")
    if (other := OTHER_HYPERVISORS.get(domain.get("type", ""))) is not None:
        what, presets = other
        raise UsageError(
            f"domain {name}: is one of {what}'s, and QEMU is not like it",
            hint=f"near it is --preset {presets}" if presets else "no preset is near it",
        )
    if kind is None or (kind.text, kind.get("arch", "x86_64")) != ("hvm", "x86_64"):
        raise UsageError(f"domain {name}: only full machines of x86_64 can be made here")
    disks, problems, others, said = [], [], [], [*_beside(domain)]
    for disk in domain.iterfind("devices/disk"):
        target = disk.find("target")
        label = f"disk {target.get('dev', '') if target is not None else ''}"
        if reason := _holds_nothing(disk):
            others.append(f"{label} is not tested: {reason}")
            continue
        said += left_out(DISK, said_below(disk), label)
        try:
            if reason := _cannot_be_made(disk):
                raise UsageError(f"{label}: {reason}")
            disks.append(_disk_likeness(domain, disk, connect))
        except UsageError as error:
            problems.append(LeftOut(label, str(error).removeprefix(f"{label}: ")))
    for one in domain.iterfind("devices/controller"):
        controller = f"controller {one.get('type')} {one.get('index', '0')}"
        if one.get("type") in _WITH_DISKS:
            said += left_out(CONTROLLER, said_below(one), controller)
    if not disks:
        why = "; ".join(f"{one.what}: {one.why}" for one in problems) or "it has none"
        raise UsageError(f"domain {name}: no disk of it can be tested: {why}")
    differs = (*_differences(domain), *others)
    return Likeness(name, tuple(disks), differs, tuple(dict.fromkeys(said)), tuple(problems))


def _holds_nothing(disk: ET.Element) -> str:
    """Why nothing that is acknowledged can be lost on a disk; empty if something can."""
    if disk.get("device", "disk") in ("cdrom", "floppy"):
        return "a removable medium"
    return "it is read-only" if disk.find("readonly") is not None else ""


def _cannot_be_made(disk: ET.Element) -> str:
    """Why none like a disk can be made here, whatever else is said of it; empty if one can."""
    if disk.find("transient") is not None:
        return "transient: all that is written to it is discarded when the domain stops"
    if disk.get("device", "disk") != "disk":
        return "a device of the host that is passed through"
    return _NO_IMAGE.get(disk.get("type", "file"), "")


def _beside(domain: ET.Element) -> Iterator[LeftOut]:
    """What may hold data and is no disk, and what is said past libvirt."""
    for element in domain:
        if element.tag.startswith(QEMU):
            yield from left_out(NAMESPACE, _named_only(element), "qemu")
    for element in domain.iterfind("devices/*"):
        kept = element.tag == "memory" and element.get("model") in MEMORY
        if why := BESIDE.get(element.tag) or (kept and "memory that a file backs is not covered"):
            yield LeftOut(element.tag, why)


def _named_only(element: ET.Element) -> Iterator[tuple[str, str]]:
    """Options of a command line without what they are given, which may be a path or a secret."""
    local = element.tag.removeprefix(QEMU)
    if local != "commandline":
        yield from ((path, value) for path, value in said_below(element))
        return
    given = [one.get("value", "") for one in element if one.tag == f"{QEMU}arg"]
    options = [word for word in given if re.fullmatch(r"--?[A-Za-z][A-Za-z0-9-]*", word)]
    yield local, " ".join(options) or "environment"


def read_kept(text: str) -> Kept:
    """What `read_likeness` has written into the settings of a disk.  Raises UsageError."""
    domain = _parsed(text)
    disk = domain.find("devices/disk")
    kind = domain.find("os/type")
    if disk is None or kind is None:
        raise UsageError("machine.like: it has no disk, or no type of machine")
    checked = _reduced(domain, disk)
    reduced = checked.find("devices/disk")
    return Kept(
        machine=kind.get("machine", "pc"),
        features=tuple(feature.tag for feature in checked.iterfind("features/*")),
        cpu=checked.find("cpu"),
        iothreads=_text_of(checked, "iothreads"),
        disk=disk if reduced is None else reduced,
        controllers=tuple(checked.iterfind("devices/controller")),
    )


def _parsed(text: str) -> ET.Element:
    if len(text) > _LARGEST or "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise UsageError("a definition of a domain is short, and declares no entities")
    try:
        domain = ET.fromstring(text)
    except ET.ParseError as error:
        raise UsageError(f"this is no definition of a domain: {error}") from None
    if domain.tag != "domain":
        raise UsageError(f"this is no definition of a domain: it is a <{domain.tag}>")
    return domain


def _disk_likeness(domain: ET.Element, disk: ET.Element, connect: str | None) -> DiskLikeness:
    target, driver = disk.find("target"), disk.find("driver")
    name = target.get("dev", "") if target is not None else ""
    bus = _bus(domain, disk, name)
    said = driver.attrib if driver is not None else {}
    cache = said.get("cache", "default")
    image = said.get("type", "raw")
    if image not in {one.value for one in ImageFormat}:
        raise UsageError(f"disk {name}: powercut makes no image in the format {image}")
    emulator = _text_of(domain, "devices/emulator")
    as_file = disk.get("type") in ("file", "block")
    grows = disk.get("type") == "file" and image != ImageFormat.RAW.value
    settings: dict[str, object] = {
        "backend": "libvirt",
        **({"connect": connect} if connect else {}),
        "bus": bus.value,
        # Without a word libvirt passes none, and QEMU's own default is writeback.
        "cache": CacheMode.WRITEBACK.value if cache == "default" else cache,
        "aio": said.get("io", Aio.THREADS.value) if as_file else Aio.NBD.value,
        "format": image,
        **({"grows": True} if grows else {}),
        "cpus": _cpus(domain),
        **({"qemu": emulator} if emulator not in ("", f"/usr/bin/{PROGRAM}") else {}),
        "like": ET.tostring(_reduced(domain, disk), encoding="unicode"),
    }
    return DiskLikeness(name, settings)


def _bus(domain: ET.Element, disk: ET.Element, name: str) -> Bus:
    target = disk.find("target")
    said = target.get("bus", "") if target is not None else ""
    bus = next((bus for bus, (word, _) in BUSES.items() if said == word), None)
    if said == Bus.NVME.value:
        return Bus.NVME
    if bus is None:
        raise UsageError(f"disk {name}: powercut has no guest with a disk on {said or 'no bus'}")
    models = {one.get("model") for one in _controllers(domain, disk) if one.get("model")}
    if bus is Bus.VIRTIO_SCSI and models != {"virtio-scsi"}:
        found = ", ".join(sorted(model for model in models if model)) or "libvirt's choice"
        raise UsageError(f"disk {name}: of SCSI controllers only virtio-scsi is known, not {found}")
    return bus


def _cpus(domain: ET.Element) -> int:
    said = _text_of(domain, "vcpu")
    return min(int(said), _CPUS_MAX) if said.isdecimal() and int(said) else 1


def _controllers(domain: ET.Element, disk: ET.Element) -> Iterator[ET.Element]:
    target, address = disk.find("target"), disk.find("address")
    bus = target.get("bus") if target is not None else ""
    index = address.get("controller", "0") if address is not None else "0"
    for one in domain.iterfind("devices/controller"):
        if one.get("type") == bus and one.get("index", "0") == index:
            yield one


def _reduced(domain: ET.Element, disk: ET.Element) -> ET.Element:
    """The definition without anything that `Kept` does not have."""
    kept = ET.Element("domain")
    system = ET.SubElement(kept, "os")
    kind = domain.find("os/type")
    machine = kind.get("machine", "pc") if kind is not None else "pc"
    ET.SubElement(system, "type", machine=machine, arch="x86_64").text = "hvm"
    features = ET.SubElement(kept, "features")
    for feature in domain.iterfind("features/*"):
        if feature.tag in _FEATURES:
            ET.SubElement(features, feature.tag, dict(feature.attrib))
    if (cpu := domain.find("cpu")) is not None:
        kept.append(copy.deepcopy(cpu))
    if iothreads := _text_of(domain, "iothreads"):
        ET.SubElement(kept, "iothreads").text = iothreads
    devices = ET.SubElement(kept, "devices")
    made = ET.SubElement(devices, "disk")
    for tag, names in (("driver", _DRIVER), ("blockio", BLOCKS), ("target", {"dev", "bus"})):
        if (found := disk.find(tag)) is not None:
            chosen = {k: v for k, v in found.attrib.items() if k in names}
            ET.SubElement(made, tag, chosen)
    for one in _controllers(domain, disk):
        chosen = {k: v for k, v in one.attrib.items() if k in _CONTROLLER}
        controller = ET.SubElement(devices, "controller", chosen | {"index": "0"})
        if (driver := one.find("driver")) is not None:
            known = {k: v for k, v in driver.attrib.items() if k in CONTROLLED}
            ET.SubElement(controller, "driver", known)
    return kept


def _differences(domain: ET.Element) -> Iterator[str]:
    """What of the domain a machine that is made like it does not have."""
    yield "tests run on scratch disks; the domain's own are never opened"
    yield "it boots powercut's kernel, has 192 MiB of RAM, and no network"
    if domain.find("os/loader") is not None or domain.find("os[@firmware]") is not None:
        yield "no firmware is loaded: the kernel is started directly"
    if any(one.get("type") not in (None, "raw") for one in domain.iterfind("devices/disk/driver")):
        yield "images in a format are made anew, and begin empty"
    if any(one.get("type") not in ("file", "block") for one in domain.iterfind("devices/disk")):
        yield "disks that are neither files nor block devices are reached by NBD"
    if domain.get("type") == "kvm":
        yield "where KVM does not work, its processor is emulated"


def _text_of(element: ET.Element, path: str) -> str:
    return (element.findtext(path) or "").strip()
