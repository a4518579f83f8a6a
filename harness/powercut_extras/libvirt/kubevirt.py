# SPDX-License-Identifier: Apache-2.0
"""A machine of KubeVirt, translated to a domain of libvirt: what matters to its disks.

The text is a VirtualMachine or VirtualMachineInstance (kubevirt.io/v1) in YAML or JSON, as
`kubectl get vmi NAME -o yaml` prints it.  Where it says nothing, KubeVirt has the bus sata, the
cache none where the volume's file system has O_DIRECT, io native for block devices with that cache
(pkg/virt-launcher/virtwrap/converter, SetDriverCacheMode and SetOptimalIOMode) and discard unmap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from powercut.model.errors import UsageError
from powercut.scenario.likeness import Likeness
from powercut.scenario.yaml_file import parse_yaml
from powercut_extras.libvirt.definition import read_likeness
from powercut_extras.libvirt.translated import (
    LARGEST,
    TranslatedDisk,
    TranslatedMachine,
    domain_xml,
    number_of,
)

_KINDS: Final = ("VirtualMachine", "VirtualMachineInstance")
_LASTING: Final = ("persistentVolumeClaim", "dataVolume", "hostDisk", "emptyDisk")
"""Volumes that keep what is written, as long as the machine is there."""

_BUSES: Final = ("virtio", "sata", "scsi", "usb")
_CACHES: Final = ("none", "writeback", "writethrough")
_IOS: Final = ("native", "threads")
_CPU_MODES: Final = ("host-model", "host-passthrough")
_DIFFERS: Final = (
    "QEMU: KubeVirt has a build of its own; this host's is used",
    "volumes: whether one is a block device or a file is not in the definition; where it says no "
    "io, a claim is taken for a block device (io native with cache none)",
)


def is_kubevirt(text: str) -> bool:
    """Whether the text says that it is one of KubeVirt's."""
    return "kubevirt.io/" in text[:LARGEST] and "apiVersion" in text[:LARGEST]


def read_kubevirt(text: str, connect: str | None) -> Likeness:
    """How machines are made that are like the one defined by `text`.

    Raises UsageError for what is no such definition, or has no disk that can be made here.
    """
    if len(text) > LARGEST:
        raise UsageError("a definition of a machine is short")
    what = "this is no definition of a machine of KubeVirt", "kubectl get vmi NAME -o yaml"
    document = parse_yaml(text, Path("the definition"), what)
    if document.get("kind") not in _KINDS:
        raise UsageError(f"{what[0]}: its kind is {document.get('kind')!r}", hint=what[1])
    problems: list[str] = []
    likeness = read_likeness(domain_xml(_machine(document, problems)), connect)
    return replace(likeness, differs=(*_DIFFERS, *problems, *likeness.differs))


def _machine(document: Mapping[str, Any], problems: list[str]) -> TranslatedMachine:
    spec = _map(document, "spec")
    if document["kind"] == "VirtualMachine":
        spec = _map(_map(spec, "template"), "spec")
    domain = _map(spec, "domain")
    devices, cpu = _map(domain, "devices"), _map(domain, "cpu")
    vcpus = 1
    for key in ("sockets", "cores", "threads"):
        vcpus *= number_of(cpu.get(key, 1))
    model = cpu.get("model", "host-model")
    named = isinstance(model, str) and model not in _CPU_MODES
    queues = vcpus if devices.get("blockMultiQueue") is True else 0
    name = _map(document, "metadata").get("name")
    kind = _map(domain, "machine").get("type")
    volumes = {one.get("name"): one for one in _list(spec, "volumes")}
    return TranslatedMachine(
        name=name if isinstance(name, str) else "machine",
        machine=kind if isinstance(kind, str) and kind else "q35",
        vcpus=vcpus,
        disks=tuple(_disks(devices, volumes, queues, problems)),
        cpu_mode="custom" if named else str(model),
        cpu_model=str(model) if named else "",
        shared=domain.get("ioThreadsPolicy") in ("shared", "auto"),
    )


def _disks(
    devices: Mapping[str, Any],
    volumes: Mapping[Any, Mapping[str, Any]],
    queues: int,
    problems: list[str],
) -> Iterator[TranslatedDisk]:
    for disk in _list(devices, "disks"):
        name = disk.get("name")
        volume = volumes.get(name, {})
        kind = next((one for one in _LASTING if one in volume), "")
        keys = [str(key) for key in volume]  # a tagged one is none
        if "cdrom" in disk or "floppy" in disk or any(key.startswith("cloud") for key in keys):
            continue
        if "lun" in disk:
            problems.append(f"disk {name}: a LUN that is passed through")
            continue
        if not kind:
            what = ", ".join(key for key in keys if key != "name") or "no volume of that name"
            problems.append(f"disk {name}: nothing of it lasts ({what})")
            continue
        cache = _choice(disk, "cache", _CACHES, "none", name)
        in_file = kind in ("hostDisk", "emptyDisk")
        io = _choice(disk, "io", (*_IOS, "default"), "default", name)
        if io == "default":
            io = "native" if cache == "none" and not in_file else ""
        yield TranslatedDisk(
            bus=_choice(_map(disk, "disk"), "bus", _BUSES, "sata", name),
            image="qcow2" if kind == "emptyDisk" else "raw",
            cache=cache,
            io=io,
            discard="unmap",
            dedicated=disk.get("dedicatedIOThread") is True,
            queues=queues,
            in_file=in_file,
        )


def _choice(
    disk: Mapping[str, Any], key: str, known: tuple[str, ...], usual: str, name: object
) -> str:
    said = disk.get(key) or usual
    if said not in known:
        raise UsageError(f"disk {name}: {key} {said!r} is none of {', '.join(known)}")
    return str(said)


def _map(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """What is below `key`; nothing if it is not there."""
    found = value.get(key)
    if found is not None and not isinstance(found, Mapping):
        raise UsageError(f"this is no definition of a machine of KubeVirt: {key} is no mapping")
    return found or {}


def _list(value: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = value.get(key) or []
    if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
        raise UsageError(
            f"this is no definition of a machine of KubeVirt: {key} is no list of mappings"
        )
    return found
