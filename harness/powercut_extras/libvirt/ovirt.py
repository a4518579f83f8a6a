# SPDX-License-Identifier: Apache-2.0
"""A machine of oVirt, translated to a domain of libvirt: what matters to its disks.

The text is its OVF, as in an export, an OVA or the storage domain's OVF_STORE.  The engine gives
disks cache=none, io native (threads in files) and discard only if the disk passes it on
(LibvirtVmXmlBuilder, writeDiskDriver); COW is qcow2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from xml.etree import ElementTree as ET

from powercut.model.errors import UsageError
from powercut.scenario.likeness import LeftOut, Likeness
from powercut_extras.libvirt.meaning import (
    CARRIED,
    DECIDES,
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

_BUSES: Final = {"VirtIO": "virtio", "VirtIO_SCSI": "scsi", "IDE": "ide", "SATA": "sata"}
_IMAGES: Final = {"COW": "qcow2", "RAW": "raw"}
_CHIPSETS: Final = {"0": "pc", "1": "pc"}
"""BiosType: the cluster's default (a guess), and i440FX with SeaBIOS; the others are Q35."""

_HEAD: Final = 4096
_ELEMENT: Final = re.compile(r"<([A-Za-z][A-Za-z0-9._:-]*)")
_DIFFERS: Final = (
    "QEMU: oVirt's hosts have a build of their own; this host's is used",
    "storage domain: whether it has files or block devices is not in the OVF; a sparse raw image "
    "can only be a file (io threads), all others are taken for block devices (io native)",
)

_TOLD: Final = Meaning(Fate.NO_EFFECT, "what the guest is told, or what oVirt does with the disk")
DISK: Final = {
    **rows(
        CARRIED,
        "disk/%",
        "disk-interface volume-format volume-type pass-discard",
    ),
    "disk/read-only": DECIDES,
    **rows(_TOLD, "disk/%", "diskId size actual_size vm_snapshot_id parentRef fileRef format"),
    **rows(_TOLD, "disk/%", "boot disk-alias disk-description wipe-after-delete description"),
    **rows(_TOLD, "disk/%", "disk_storage_type cinder_volume_type incremental-backup capacity"),
    **rows(_TOLD, "disk/%", "populatedSize capacityAllocationUnits plugged backup qcow_compat"),
    "disk/shareable": Meaning(
        Fate.LEFT_OUT, "other machines may write to it at the same time", ("false",)
    ),
    "disk/disk-type": _TOLD,
    "disk/scsi_reservation": Meaning(Fate.NO_EFFECT, "reservations of SCSI, for several hosts"),
    "disk/propagate-errors": Meaning(Fate.LEFT_OUT, "what a failed write does", ("On",)),
}
"""Attributes of a Disk."""


def is_ovf(text: str) -> bool:
    """Whether the text is XML whose first element is an OVF's."""
    element = _ELEMENT.search(text[:_HEAD])
    return element is not None and element[1].rpartition(":")[2] == "Envelope"


def read_ovirt(text: str, connect: str | None) -> Likeness:
    """How machines are made that are like the one defined by `text`.

    Raises UsageError for what is no such definition, or has no disk that can be made here.
    """
    if len(text) > LARGEST or "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise UsageError("a definition of a machine is short, and declares no entities")
    try:
        envelope = ET.fromstring(text)
    except ET.ParseError as error:
        raise UsageError(f"this is no definition of a machine: {error}") from None
    content = _first(envelope, "Content")
    if _local(envelope.tag) != "Envelope" or content is None:
        raise UsageError("this is no OVF of oVirt's: it has no Envelope with a Content")
    left: list[LeftOut] = []
    missing: list[LeftOut] = []
    others: list[str] = []
    threads = number_of(_text(content, "NumOfIoThreads"), 0)
    disks = tuple(_disks(envelope, threads, left, missing, others))
    if not disks and not missing:
        raise UsageError("this is no OVF of oVirt's: it names no Disk with a disk-interface")
    chosen = _text(content, "CustomEmulatedMachine")
    chipset = _CHIPSETS.get(_text(content, "BiosType") or "0", "q35")
    model = _text(content, "CustomCpuName")
    machine = TranslatedMachine(
        name=_text(content, "Name") or "machine",
        machine=chosen or chipset,
        vcpus=_vcpus(content),
        disks=disks,
        cpu_mode="custom" if model else "",
        cpu_model=model,
        shared=threads > 0,
        left_out=tuple(left),
        disks_left_out=tuple(missing),
        differs=(*_DIFFERS, *others),
    )
    return read_translated(machine, connect)


def _disks(
    envelope: ET.Element,
    threads: int,
    left: list[LeftOut],
    missing: list[LeftOut],
    others: list[str],
) -> Iterator[TranslatedDisk]:
    for disk in envelope.iter():
        said = {_local(key): value for key, value in disk.attrib.items()}
        interface = said.get("disk-interface")
        if _local(disk.tag) != "Disk" or interface is None:
            continue
        label = f"disk {said.get('disk-alias') or said.get('diskId', '')}"
        if said.get("read-only", "").lower() == "true":
            others.append(f"{label} is not tested: it is read-only")
            continue
        left += left_out(DISK, ((f"disk/{key}", value) for key, value in said.items()), label)
        if interface not in _BUSES:
            missing.append(LeftOut(label, f"powercut has no guest with a disk on {interface}"))
            continue
        image = _IMAGES.get(said.get("volume-format", ""))
        if image is None:
            missing.append(LeftOut(label, "its volume-format is neither COW nor RAW"))
            continue
        in_file = image == "raw" and said.get("volume-type") == "Sparse"
        yield TranslatedDisk(
            bus=_BUSES[interface],
            image=image,
            io="threads" if in_file else "native",
            discard="unmap" if said.get("pass-discard", "").lower() == "true" else "",
            dedicated=threads > 1,
            in_file=in_file,
            name=label.removeprefix("disk "),
        )


def _vcpus(content: ET.Element) -> int:
    """Sockets times cores times threads of the item that says so."""
    counts = {"num_of_sockets": 1, "cpu_per_socket": 1, "threads_per_cpu": 1}
    for item in content.iter():
        key = _local(item.tag)
        if key in counts:
            counts[key] = number_of((item.text or "").strip())
    whole = 1
    for count in counts.values():
        whole *= count
    return whole


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _first(parent: ET.Element, name: str) -> ET.Element | None:
    return next((one for one in parent.iter() if _local(one.tag) == name), None)


def _text(parent: ET.Element, name: str) -> str:
    found = _first(parent, name)
    return "" if found is None else (found.text or "").strip()
