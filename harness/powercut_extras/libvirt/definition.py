# SPDX-License-Identifier: Apache-2.0
"""Somebody's domain, read for what matters to its disks, and nothing else.

A definition may come from a stranger.  What is kept of it is named here, element by element
(libvirt.org/formatdomain.html); paths of disks, networks, devices of the host, command lines of
QEMU and secrets are not among it.  The only file that is named is the emulator, as `machine.qemu`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Final
from xml.etree import ElementTree as ET

from powercut.machine.qemu.build import PROGRAM
from powercut.model.errors import UsageError
from powercut.model.machine import Aio, Bus, CacheMode, ImageFormat
from powercut.scenario.likeness import DiskLikeness, Likeness
from powercut_extras.libvirt.domain import BUSES, Kept

_LARGEST: Final = 1 << 20
_DRIVER: Final = frozenset(
    {
        *("discard", "detect_zeroes", "copy_on_read"),
        *("iothread", "queues", "queue_size", "ioeventfd", "event_idx"),
        *("packed", "iommu", "ats", "page_per_vq"),
    }
)
"""Attributes of a disk's driver that say how its requests travel, besides cache, io and type."""

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
    if kind is None or (kind.text, kind.get("arch", "x86_64")) != ("hvm", "x86_64"):
        raise UsageError(f"domain {name}: only full machines of x86_64 can be made here")
    disks, problems = [], []
    for disk in domain.iterfind("devices/disk"):
        if disk.get("device", "disk") in ("cdrom", "floppy"):
            continue
        try:
            disks.append(_disk_likeness(domain, disk, connect))
        except UsageError as error:
            problems.append(str(error))
    if not disks:
        why = "; ".join(problems) or "it has none"
        raise UsageError(f"domain {name}: no disk of it can be tested: {why}")
    return Likeness(name, tuple(disks), (*_differences(domain), *problems))


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
    if disk.get("device", "disk") != "disk":
        raise UsageError(f"disk {name}: a device of the host that is passed through")
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
    for tag, names in (("driver", _DRIVER), ("blockio", None), ("target", {"dev", "bus"})):
        if (found := disk.find(tag)) is not None:
            chosen = {k: v for k, v in found.attrib.items() if names is None or k in names}
            ET.SubElement(made, tag, chosen)
    for one in _controllers(domain, disk):
        chosen = {k: v for k, v in one.attrib.items() if k in _CONTROLLER}
        controller = ET.SubElement(devices, "controller", chosen | {"index": "0"})
        if (driver := one.find("driver")) is not None:
            ET.SubElement(controller, "driver", dict(driver.attrib))
    return kept


def _differences(domain: ET.Element) -> Iterator[str]:
    """What of the domain a machine that is made like it does not have."""
    yield "its disks are scratch disks, captured; the domain's own are not opened"
    yield "it boots powercut's kernel, has 192 MiB of RAM, and no network"
    if domain.find("os/loader") is not None or domain.find("os[@firmware]") is not None:
        yield "no firmware is loaded: the kernel is started directly"
    if domain.find("devices/disk/iotune") is not None:
        yield "its disks are not throttled (iotune)"
    if any(one.get("type") not in (None, "raw") for one in domain.iterfind("devices/disk/driver")):
        yield "images in a format are made anew, and begin empty"
    if any(one.get("type") not in ("file", "block") for one in domain.iterfind("devices/disk")):
        yield "disks that are neither files nor block devices are reached by NBD"
    if domain.get("type") == "kvm":
        yield "where KVM does not work, its processor is emulated"
    if any(element.tag.endswith("}commandline") for element in domain):
        yield "arguments that were given to QEMU past libvirt (qemu:commandline) are left out"


def _text_of(element: ET.Element, path: str) -> str:
    return (element.findtext(path) or "").strip()
