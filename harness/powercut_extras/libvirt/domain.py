# SPDX-License-Identifier: Apache-2.0
"""A domain's XML as a pure function of the machine's description.

Elements and attributes are those of libvirt's domain format (libvirt.org/formatdomain.html).  A
cache mode is one attribute there, of which libvirt makes what `-drive cache=` means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID
from xml.etree import ElementTree as ET

from powercut.machine.port import (
    Attachment,
    FileDisk,
    GuestImage,
    MachineSpec,
    NbdDisk,
    guest_words,
    served_disk,
)
from powercut.model.machine import (
    USUAL_QUEUEING,
    Accelerator,
    Bus,
    CacheFlags,
    CacheMode,
    HostCache,
    Queueing,
)

BUSES: Final[dict[Bus, tuple[str, str]]] = {
    Bus.VIRTIO_BLK: ("virtio", "vda"),
    Bus.VIRTIO_SCSI: ("scsi", "sda"),
    Bus.IDE: ("ide", "hda"),
    Bus.AHCI: ("sata", "sda"),
    Bus.USB_STORAGE: ("usb", "sda"),
}
"""What libvirt calls a bus, and a disk on it."""

_CONTROLLERS: Final = {
    Bus.VIRTIO_SCSI: {"type": "scsi", "model": "virtio-scsi"},
    Bus.AHCI: {"type": "sata"},
    Bus.USB_STORAGE: {"type": "usb", "model": "qemu-xhci"},
}


@dataclass(frozen=True)
class Kept:
    """What somebody's domain has that decides on what becomes of a disk's requests.

    `disk` has the disk's driver and its sizes of blocks; `controllers` are those that it is on.
    """

    machine: str
    features: tuple[str, ...]
    cpu: ET.Element | None
    iothreads: str
    disk: ET.Element
    controllers: tuple[ET.Element, ...]


@dataclass(frozen=True)
class DomainSpec:
    """What of a domain does not follow from the machine's description.

    `owner` is the user and group as whom its QEMU runs, where libvirt may choose; `unlabelled`
    are the security drivers that must leave our files alone; `tsc_khz` is the
    frequency of the host's time-stamp counter.
    """

    name: str
    uuid: UUID
    emulator: Path
    guest: GuestImage
    accelerator: Accelerator
    owner: tuple[int, int] | None = None
    unlabelled: tuple[str, ...] = ()
    tsc_khz: int | None = None


def cache_name(cache: HostCache) -> CacheMode | None:
    """The mode that consists of these parts; None if no mode does, and libvirt knows only modes."""
    if isinstance(cache, CacheMode):
        return cache
    for mode in CacheMode:
        if cache == CacheFlags(mode.write_cache, mode.direct, mode.no_flush):
            return mode
    return None


def domain_xml(
    machine: MachineSpec,
    disks: Sequence[Attachment],
    own: DomainSpec,
    folder: Path,
    likes: Sequence[Kept | None] = (None,),
) -> str:
    """The domain; its console, and the socket of its channel, lie in `folder`.

    What somebody's domain has that it is to be like replaces what it would have itself; `likes`
    has that for each of the `disks`.
    """
    like = likes[0]
    kvm = own.accelerator is Accelerator.KVM
    domain = ET.Element("domain", type="kvm" if kvm else "qemu")
    _text(domain, "name", own.name)
    _text(domain, "uuid", str(own.uuid))
    _text(domain, "memory", str(machine.memory_mib), unit="MiB")
    _text(domain, "vcpu", str(machine.cpus))
    _add_system(domain, machine, disks, own, like)
    ET.SubElement(domain, "cpu", mode="host-passthrough" if kvm else "maximum")
    for event in ("on_poweroff", "on_reboot", "on_crash"):
        _text(domain, event, "destroy")
    devices = ET.SubElement(domain, "devices")
    _text(devices, "emulator", str(own.emulator))
    threads = _add_disks(devices, disks)
    if all(disk.bus is not Bus.USB_STORAGE for disk in disks):
        ET.SubElement(devices, "controller", type="usb", model="none")
    if threads:
        domain.insert(list(domain).index(devices), _element("iothreads", str(threads)))
    devices.extend(_ports(folder))
    ET.SubElement(devices, "memballoon", model="none")
    domain.extend(_labels(own))
    if like is not None:
        _make_like(domain, like, kvm=kvm)
    for element, theirs in zip(domain.findall("devices/disk"), likes, strict=True):
        if theirs is not None:
            _make_disk_like(devices, element, theirs)
    ET.indent(domain)
    return ET.tostring(domain, encoding="unicode")


def _add_system(
    domain: ET.Element,
    machine: MachineSpec,
    disks: Sequence[Attachment],
    own: DomainSpec,
    like: Kept | None,
) -> None:
    """What is booted, on which board."""
    system = ET.SubElement(domain, "os")
    _text(system, "type", "hvm", arch="x86_64", machine="pc")
    _text(system, "kernel", str(own.guest.kernel))
    _text(system, "initrd", str(own.guest.initramfs))
    acpi = machine.cpus > 1 if like is None else "acpi" in like.features
    words = guest_words(
        *(disk.bus for disk in disks),
        emulated=own.accelerator is not Accelerator.KVM,
        acpi=acpi,
        cpus=machine.cpus if acpi else 1,
        tsc_khz=own.tsc_khz,
        added=machine.kernel_arguments,
    )
    _text(system, "cmdline", words)
    if like is None and acpi:
        # Without its tables Linux finds one processor.
        ET.SubElement(ET.SubElement(domain, "features"), "acpi")


def _make_like(domain: ET.Element, like: Kept, *, kvm: bool) -> None:
    devices, kind = domain.find("devices"), domain.find("os/type")
    assert devices is not None
    assert kind is not None
    kind.set("machine", like.machine)
    features = ET.Element("features")
    for feature in like.features:
        ET.SubElement(features, feature)
    domain.insert(list(domain).index(devices), features)
    if kvm and like.cpu is not None:
        domain.remove(next(domain.iterfind("cpu")))
        domain.insert(list(domain).index(devices), like.cpu)
    if like.iothreads:
        _text(domain, "iothreads", like.iothreads)


def _make_disk_like(devices: ET.Element, disk: ET.Element, like: Kept) -> None:
    driver = disk.find("driver")
    assert driver is not None
    if (theirs := like.disk.find("driver")) is not None:
        driver.attrib.update(theirs.attrib)
    if (blocks := like.disk.find("blockio")) is not None:
        disk.append(blocks)
    for theirs in like.controllers:
        for ours in devices.findall("controller"):
            if ours.get("type") == theirs.get("type"):
                devices.remove(ours)
        devices.append(theirs)


def _add_disks(devices: ET.Element, disks: Sequence[Attachment]) -> int:
    """Adds the disks and their controllers, each once; returns how many threads they want."""
    threads = 0
    for number, disk in enumerate(disks):
        before = [one.bus for one in disks[:number]]
        element = _disk(disk, _target(disk.bus, before))
        devices.append(element)
        has_driver = element
        if disk.bus in _CONTROLLERS:
            if disk.bus in before:
                continue
            has_driver = ET.SubElement(devices, "controller", _CONTROLLERS[disk.bus])
        threads += disk.queueing.iothread
        _queue(has_driver, disk.queueing, threads)
    return threads


def _queue(device: ET.Element, wanted: Queueing, thread: int) -> None:
    """Says in the driver of a disk or controller how its requests are queued."""
    if wanted == USUAL_QUEUEING:
        return
    driver = device.find("driver")
    if driver is None:
        driver = ET.SubElement(device, "driver")
    if wanted.queues:
        driver.set("queues", str(wanted.queues))
    if wanted.iothread:
        driver.set("iothread", str(thread))


def _target(bus: Bus, before: Sequence[Bus]) -> str:
    """The name of a disk's place, of which each has another; the buses with one prefix share it."""
    first = BUSES[bus][1]
    taken = sum(BUSES[one][1] == first for one in before)
    return f"{first[:-1]}{chr(ord(first[-1]) + taken)}"


def _disk(disk: Attachment, target: str) -> ET.Element:
    mode = cache_name(disk.cache)
    if mode is None or disk.bus not in BUSES:
        raise ValueError(f"libvirt has no disk on {disk.bus.value} with {disk.cache}")
    bus = BUSES[disk.bus][0]
    served = served_disk(disk)
    kind = "network" if isinstance(served, NbdDisk) else "file"
    element = ET.Element("disk", type=kind, device="disk")
    image_format = disk.layer.format.value if disk.layer else "raw"
    driver = ET.SubElement(element, "driver", name="qemu", type=image_format, cache=mode.value)
    driver.set("error_policy", "report")
    if isinstance(served, NbdDisk):
        source = ET.SubElement(element, "source", protocol="nbd")
        if served.export:
            source.set("name", served.export)
        ET.SubElement(source, "host", transport="unix", socket=str(served.socket))
    else:
        driver.set("io", served.aio.value)
        path = served.path if isinstance(served, FileDisk) else served.socket
        ET.SubElement(element, "source", file=str(path))
    if disk.layer:
        ET.SubElement(element, "backingStore")  # none, whatever the image names as one
    ET.SubElement(element, "target", dev=target, bus=bus)
    if disk.serial:
        _text(element, "serial", disk.serial)
    return element


def _ports(folder: Path) -> list[ET.Element]:
    """The channel on which the guest speaks, and its console."""
    ports = ET.Element("ports")
    ET.SubElement(ports, "controller", type="virtio-serial")
    channel = ET.SubElement(ports, "channel", type="unix")
    ET.SubElement(channel, "source", mode="connect", path=str(folder / "ctl"))
    ET.SubElement(channel, "target", type="virtio", name="ctl")
    serial = ET.SubElement(ports, "serial", type="file")
    ET.SubElement(serial, "source", path=str(folder / "console.log"), append="on")
    ET.SubElement(serial, "target", port="0")
    return list(ports)


def _labels(own: DomainSpec) -> list[ET.Element]:
    labels = ET.Element("labels")
    if own.owner is not None:
        label = ET.SubElement(labels, "seclabel", type="static", model="dac", relabel="no")
        _text(label, "label", "+{}:+{}".format(*own.owner))
    for model in own.unlabelled:
        ET.SubElement(labels, "seclabel", type="none", model=model)
    return list(labels)


def _text(parent: ET.Element, tag: str, text: str, **attributes: str) -> None:
    parent.append(_element(tag, text, **attributes))


def _element(tag: str, text: str, **attributes: str) -> ET.Element:
    element = ET.Element(tag, attributes)
    element.text = text
    return element
