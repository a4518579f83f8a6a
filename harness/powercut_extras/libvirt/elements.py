# SPDX-License-Identifier: Apache-2.0
"""The elements of a domain's definition below a disk, a controller and QEMU's namespace, and what
becomes of each.

Their meaning is that of libvirt.org/formatdomain.html; which there are, of the schema
(domaincommon.rng), which a test goes through where libvirt is installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from xml.etree import ElementTree as ET

from powercut_extras.libvirt.meaning import (
    CARRIED,
    DECIDES,
    SLOWED,
    Fate,
    Meaning,
    rows,
)


def _no_effect(why: str) -> Meaning:
    return Meaning(Fate.NO_EFFECT, why)


def _left_out(why: str, *usual: str) -> Meaning:
    return Meaning(Fate.LEFT_OUT, why, usual)


_PLACE: Final = _no_effect("where the data lies: a disk of powercut's stands in for it")
_REACHED: Final = _no_effect("how the storage is reached, and what happens where it cannot be")
_TOLD: Final = _no_effect("what the guest is told of the device, or where it sits")
_CIPHER: Final = _left_out("a layer that encrypts stands between the guest and the image")
_QCOW2: Final = _left_out("how QEMU keeps an image's own tables; here it is as usual")
_THREADS: Final = _left_out("queues are spread over several I/O threads; here one serves all")

BLOCKS: Final = ("logical_block_size", "physical_block_size", "discard_granularity")
CONTROLLED: Final = (
    *("queues", "cmd_per_lun", "max_sectors", "ioeventfd", "iothread"),
    *("iommu", "ats", "packed", "page_per_vq"),
)
"""Attributes of a controller's driver."""


_SCSI: Final = "the guest's SCSI commands reach the host's device"

DISK: Final = {
    **rows(DECIDES, "disk%", "@type @device"),
    "disk": CARRIED,
    "disk@model": _left_out("the device as older guests know it", "virtio"),
    "disk@rawio": _left_out(_SCSI, "no"),
    "disk@sgio": _left_out(_SCSI, "filtered"),
    "disk@snapshot": _no_effect("what libvirt takes along in its snapshots"),
    "disk/source": _PLACE,
    **rows(_PLACE, "disk/source@%", "file dev dir pool volume mode name index fdgroup"),
    **rows(_PLACE, "disk/source@%", "namespace managed path type startupPolicy"),
    "disk/source@protocol": _left_out("its client may have a cache; here NBD stands in", "nbd"),
    **rows(_REACHED, "disk/source@%", "query tls tlsHostname"),
    **rows(_REACHED, "disk/source/%/*", "host address auth identity initiator config snapshot"),
    **rows(_REACHED, "disk/source/%/*", "ssl cookies knownHosts readahead timeout reconnect"),
    **rows(_REACHED, "disk/source/%/*", "seclabel privateData reservations"),
    **rows(_CIPHER, "disk/%/*", "encryption source/encryption"),
    "disk/source/slices/*": _left_out("the disk is a part of its image, which may split blocks"),
    "disk/source/dataStore/*": _left_out("contents and tables are two files; here they are one"),
    "disk/backingStore": Meaning(Fate.CARRIED, "without anything in it: there is none"),
    "disk/backingStore/*": _left_out("the image lies over another; here it begins empty"),
    "disk/mirror/*": _left_out("a job of QEMU's writes to a second image at the same time"),
    "disk/driver": CARRIED,
    "disk/driver@name": _left_out("another hypervisor's driver", "qemu"),
    **rows(CARRIED, "disk/driver@%", "type cache io discard detect_zeroes copy_on_read"),
    **rows(CARRIED, "disk/driver@%", "iothread queues queue_size ioeventfd event_idx"),
    **rows(CARRIED, "disk/driver@%", "packed iommu ats page_per_vq"),
    "disk/driver@error_policy": _left_out("what a failed write does to the guest", "report"),
    "disk/driver@rerror_policy": _left_out("what a failed read does to the guest", "report"),
    **rows(_QCOW2, "disk/driver%", "@discard_no_unref /metadata_cache/*"),
    "disk/driver/iothreads/*": _THREADS,
    "disk/driver/statistics/*": _no_effect("what QEMU counts"),
    "disk/target": CARRIED,
    **rows(CARRIED, "disk/target@%", "dev bus"),
    **rows(_TOLD, "disk/target@%", "tray removable rotation_rate"),
    "disk/target@dpofua": _left_out("whether a SCSI disk knows FUA: machine.bus has both", "off"),
    "disk/blockio": CARRIED,
    **rows(CARRIED, "disk/blockio@%", *BLOCKS),
    "disk/shareable": _left_out("other machines may write to it at the same time"),
    **rows(SLOWED, "disk/%/*", "iotune throttlefilters"),
    **rows(DECIDES, "disk/%", "readonly transient transient@shareBacking"),
    **rows(_TOLD, "disk/%/*", "geometry boot serial wwn vendor product alias address"),
    **rows(_TOLD, "disk/%/*", "acpi auth privateData backenddomain"),
}

CONTROLLER: Final = {
    **rows(CARRIED, "controller%", "@type @index @model /driver"),
    "controller": CARRIED,
    **rows(CARRIED, "controller/driver@%", *CONTROLLED),
    "controller/driver/iothreads/*": _THREADS,
    **rows(_TOLD, "controller@%", "ports vectors maxGrantFrames maxEventChannels"),
    **rows(_TOLD, "controller/%/*", "master target model pcihole64 address alias acpi serial"),
}

NAMESPACE: Final = {
    "commandline/*": _left_out("arguments that QEMU gets past libvirt"),
    "override/*": _left_out("properties of devices that are set past libvirt"),
    "capabilities/*": _left_out("what libvirt is told that QEMU can do"),
    "deprecation/*": _no_effect("what QEMU says of old words"),
}
"""http://libvirt.org/schemas/domain/qemu/1.0."""

QEMU: Final = "{http://libvirt.org/schemas/domain/qemu/1.0}"

BESIDE: Final = {
    "hostdev": "a device of the host is passed through: if it is storage, it is not covered",
    "filesystem": "a folder of the host that is shared with the guest is not covered",
    "shmem": "memory that is shared with others is not covered",
}
"""Devices beside disks on which a guest may keep something."""

MEMORY: Final = ("nvdimm", "virtio-pmem")
"""Models of memory that is backed by a file."""

OTHER_HYPERVISORS: Final = {
    "vbox": ("VirtualBox", "virtualbox-ide or virtualbox-sata"),
    "vmware": ("VMware", "vmware-esx"),
    "xen": ("Xen", ""),
    "hyperv": ("Hyper-V", ""),
    "bhyve": ("bhyve", "bhyve"),
    "parallels": ("Virtuozzo", ""),
    "vz": ("Virtuozzo", ""),
    "ch": ("Cloud Hypervisor", "cloud-hypervisor"),
    "lxc": ("containers", ""),
    "openvz": ("containers", ""),
    "uml": ("User-Mode Linux", ""),
    "test": ("libvirt's test driver", ""),
}
"""Types of domains whose disks QEMU does not make, with presets that come near."""


def said_below(element: ET.Element, at: str = "") -> Iterator[tuple[str, str]]:
    """Paths of an element and of all that it holds, with their values."""
    path = f"{at}/{_local(element.tag)}" if at else _local(element.tag)
    text = (element.text or "").strip()
    if text or not (element.attrib or len(element)):
        yield path, text
    for name, value in element.attrib.items():
        yield f"{path}@{_local(name)}", value
    for child in element:
        yield from said_below(child, path)


def _local(name: str) -> str:
    return name.rpartition("}")[2]
