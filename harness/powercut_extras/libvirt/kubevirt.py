# SPDX-License-Identifier: Apache-2.0
"""A machine of KubeVirt, translated to a domain of libvirt: what matters to its disks.

The text is a VirtualMachine or VirtualMachineInstance (kubevirt.io/v1) in YAML or JSON, as
`kubectl get vmi NAME -o yaml` prints it, or a List with one.  Where it says nothing, KubeVirt has
the bus sata, the cache none where the volume's file system has O_DIRECT, io native for block
devices with that cache (pkg/virt-launcher/virtwrap/converter, SetDriverCacheMode and
SetOptimalIOMode) and discard unmap.  A volume that no disk names becomes a disk on virtio
(SetDefaultVolumeDisk).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from powercut.model.errors import UsageError
from powercut.scenario.likeness import LeftOut, Likeness
from powercut.scenario.yaml_file import parse_yaml
from powercut_extras.libvirt.meaning import (
    BESIDE,
    CARRIED,
    DECIDES,
    ELSEWHERE,
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
    size_of,
)

_KINDS: Final = ("VirtualMachine", "VirtualMachineInstance")
_LASTING: Final = ("persistentVolumeClaim", "dataVolume", "hostDisk", "emptyDisk")
"""Volumes that keep what is written, as long as the machine is there."""

_READ_ONLY: Final = ("configMap", "secret", "serviceAccount", "downwardAPI", "sysprep", "cloudInit")
"""Volumes that are made anew from what the cluster has; those of cloud-init have a longer name."""

_BUSES: Final = ("virtio", "sata", "scsi", "usb")
_CACHES: Final = ("none", "writeback", "writethrough", "directsync")
_IOS: Final = ("native", "threads")
_CPU_MODES: Final = ("host-model", "host-passthrough")
_DIFFERS: Final = (
    "QEMU: KubeVirt has a build of its own; this host's is used",
    "volumes: whether one is a block device or a file is not in the definition; where it says no "
    "io, a claim is taken for a block device (io native with cache none)",
)

_TOLD: Final = Meaning(Fate.NO_EFFECT, "what the guest is told of the disk, or where it sits")
_POOL: Final = Meaning(Fate.LEFT_OUT, "a pool of I/O threads; here a disk has one at most")
_DEFAULTS: Final = Meaning(Fate.LEFT_OUT, "may set bus, cache and io where the disks do not")

DISK: Final = {
    **rows(CARRIED, "disk/%", "name cache io dedicatedIOThread disk/bus"),
    "disk/disk/readonly": DECIDES,
    **rows(CARRIED, "disk/%", "blockSize/custom/logical blockSize/custom/physical"),
    "disk/blockSize/matchVolume/*": Meaning(Fate.LEFT_OUT, "blocks as large as the volume's"),
    **rows(_TOLD, "disk/%/*", "bootOrder serial tag disk/pciAddress"),
    "disk/shareable": Meaning(
        Fate.LEFT_OUT, "other machines may write to it at the same time", ("False",)
    ),
    "disk/errorPolicy": Meaning(Fate.LEFT_OUT, "what a failed write does", ("report",)),
    "disk/changedBlockTracking": Meaning(Fate.NO_EFFECT, "which blocks a backup has to take"),
}
"""Below an item of `disks`."""

DOMAIN: Final = {
    **rows(CARRIED, "domain/%/*", "cpu machine devices/disks devices/blockMultiQueue"),
    "domain/ioThreadsPolicy": Meaning(_POOL.fate, _POOL.why, ("shared", "auto")),
    "domain/ioThreads/*": _POOL,
    **rows(BESIDE, "domain/devices/%/*", "hostDevices filesystems"),
    **rows(ELSEWHERE, "domain/%/*", "resources memory clock chassis firmware features"),
    **rows(ELSEWHERE, "domain/%/*", "launchSecurity"),
    **rows(ELSEWHERE, "domain/devices/%/*", "interfaces networkInterfaceMultiqueue gpus inputs"),
    **rows(ELSEWHERE, "domain/devices/%/*", "rng watchdog autoattachGraphicsDevice tpm sound"),
    **rows(ELSEWHERE, "domain/devices/%/*", "autoattachInputDevice autoattachMemBalloon video"),
    **rows(ELSEWHERE, "domain/devices/%/*", "autoattachPodInterface autoattachSerialConsole"),
    **rows(ELSEWHERE, "domain/devices/%/*", "autoattachVSOCK clientPassthrough disableHotplug"),
    **rows(
        ELSEWHERE, "domain/devices/%/*", "downwardMetrics logSerialConsole useVirtioTransitional"
    ),
    "spec/instancetype/*": Meaning(Fate.LEFT_OUT, "may set I/O threads and processors"),
    "spec/preference/*": _DEFAULTS,
}
"""Below `domain`, and what beside it decides on disks."""


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
    document: Mapping[str, Any] = parse_yaml(text, Path("the definition"), what)
    if document.get("kind") == "List":
        machines = [one for one in _list(document, "items") if one.get("kind") in _KINDS]
        if len(machines) != 1:
            names = ", ".join(str(_map(one, "metadata").get("name")) for one in machines)
            raise UsageError(
                f"this List has {len(machines)} machines: {names or 'none'}",
                hint=f"give one of them: {what[1]}",
            )
        document = machines[0]
    if document.get("kind") not in _KINDS:
        raise UsageError(f"{what[0]}: its kind is {document.get('kind')!r}", hint=what[1])
    return read_translated(_machine(document), connect)


@dataclass
class _Found:
    """What was found beside disks that can be made."""

    left_out: list[LeftOut] = field(default_factory=list)
    missing: list[LeftOut] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)


def _machine(document: Mapping[str, Any]) -> TranslatedMachine:
    spec = outer = _map(document, "spec")
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
    found = _Found()
    beside = {key: outer[key] for key in ("instancetype", "preference") if outer.get(key)}
    found.left_out += left_out(DOMAIN, _said("spec", beside), "machine")
    found.left_out += left_out(DOMAIN, _said("domain", domain), "machine")
    disks = tuple(_disks(devices, volumes, queues, found))
    if not disks and not found.missing:
        raise UsageError("this is a machine of KubeVirt without a disk")
    return TranslatedMachine(
        name=name if isinstance(name, str) else "machine",
        machine=kind if isinstance(kind, str) and kind else "q35",
        vcpus=vcpus,
        disks=disks,
        cpu_mode="custom" if named else str(model),
        cpu_model=str(model) if named else "",
        shared=domain.get("ioThreadsPolicy") in ("shared", "auto"),
        left_out=tuple(found.left_out),
        disks_left_out=tuple(found.missing),
        differs=(*_DIFFERS, *found.differs),
    )


def _disks(
    devices: Mapping[str, Any],
    volumes: Mapping[Any, Mapping[str, Any]],
    queues: int,
    found: _Found,
) -> Iterator[TranslatedDisk]:
    shared = {one.get("name") for one in _list(devices, "filesystems")}
    disks = _list(devices, "disks")
    named = {one.get("name") for one in disks} | shared
    disks += [{"name": name, "disk": {"bus": "virtio"}} for name in volumes if name not in named]
    for disk in disks:
        name, label = disk.get("name"), f"disk {disk.get('name')}"
        keys = [str(key) for key in volumes.get(name, {}) if key != "name"]  # a tagged one is none
        if "cdrom" in disk or "floppy" in disk:
            found.differs.append(f"{label} is not tested: a removable medium")
            continue
        if any(key.startswith(_READ_ONLY) for key in keys):
            found.differs.append(f"{label} is not tested: it is made anew at each start")
            continue
        if "lun" in disk:
            found.missing.append(LeftOut(label, "a LUN that is passed through"))
            continue
        kind = next((one for one in _LASTING if one in keys), "")
        if not kind:
            what = ", ".join(keys) or "no volume of that name"
            found.missing.append(LeftOut(label, f"nothing of it lasts ({what})"))
            continue
        inner = _map(disk, "disk")
        if inner.get("readonly") is True:
            found.differs.append(f"{label} is not tested: it is read-only")
            continue
        found.left_out += left_out(DISK, _said("disk", disk), label)
        yield _disk(disk, kind, queues)


def _disk(disk: Mapping[str, Any], kind: str, queues: int) -> TranslatedDisk:
    name = disk.get("name")
    cache = _choice(disk, "cache", _CACHES, "none", name)
    in_file = kind in ("hostDisk", "emptyDisk")
    io = _choice(disk, "io", (*_IOS, "default"), "default", name)
    if io == "default":
        io = "native" if cache == "none" and not in_file else ""
    blocks = _map(_map(disk, "blockSize"), "custom")
    return TranslatedDisk(
        bus=_choice(_map(disk, "disk"), "bus", _BUSES, "sata", name),
        image="qcow2" if kind == "emptyDisk" else "raw",
        cache=cache,
        io=io,
        discard="unmap",
        dedicated=disk.get("dedicatedIOThread") is True,
        queues=queues,
        in_file=in_file,
        name=str(name),
        logical=size_of(blocks.get("logical")),
        physical=size_of(blocks.get("physical")),
    )


def _said(at: str, value: object) -> Iterator[tuple[str, str]]:
    """Paths of YAML with their values; of a list, those of its items."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _said(f"{at}/{key}", inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _said(at, inner)
    else:
        yield at, "" if value is None else str(value)


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
