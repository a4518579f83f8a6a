# SPDX-License-Identifier: Apache-2.0
"""Combinations with several disks that cannot work, or that cannot mean what they say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from powercut.model.machine import Aio, Bus
from powercut.scenario.choices import FilesystemType
from powercut.scenario.machines import LOOP
from powercut.scenario.place import OF_A_MACHINE, place_of
from powercut.scenario.settings import MachineSettings, Parameters, ProgramSettings
from powercut.scenario.settings_several import STRIPE, Holds

Reason = tuple[str, str]

_KEY: Final = "disk.also"
_OF_ONE_DISK: Final = (
    *("format", "export", "guest_write_cache", "config_wce", "grows", "during", "hotplug"),
)
NAMELESS: Final = frozenset({Bus.USB_STORAGE, Bus.VIRTIO_PMEM, Bus.NVDIMM})
"""Buses whose disks have no serial number that Linux shows."""


def refusals_of_several(p: Parameters) -> Iterator[Reason]:
    """Why these disks cannot be used so: (dotted key, reason) each."""
    if not p.disk.also:
        return
    yield from _of_layout(p)
    yield from _of_use(p)
    if p.disk.ordered:
        yield "disk.ordered", "several disks have no order between them: leave it out"
    if p.explore.depth:
        yield "explore.depth", "second cuts are of one disk: a recovery of several is not recorded"


def _of_layout(p: Parameters) -> Iterator[Reason]:
    names = [p.disk.name, *(disk.name for disk in p.disk.also)]
    kinds = [disk.holds for disk in p.disk.also]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield _KEY, f"two disks are called {name}"
    if p.filesystem.type not in (FilesystemType.XFS, FilesystemType.EXT4):
        yield "filesystem.type", "several disks take xfs or ext4"
    for holds, what in ((Holds.XFS_LOG, "log"), (Holds.XFS_REALTIME, "realtime section")):
        if holds in kinds and p.filesystem.type is not FilesystemType.XFS:
            yield _KEY, f"{holds.value} is the {what} of an XFS: filesystem.type: xfs"
        if kinds.count(holds) > 1:
            yield _KEY, f"an XFS has one {what}"
    if Holds.STRIPE not in kinds:
        return
    if set(kinds) != {Holds.STRIPE}:
        yield _KEY, "stripes lie on all disks, or on none"
    if any(disk.size != p.disk.size for disk in p.disk.also) or p.disk.size % STRIPE:
        yield _KEY, "stripes take disks of one size, a multiple of 64 KiB"


def _of_use(p: Parameters) -> Iterator[Reason]:
    program = p.workload
    if not isinstance(program, ProgramSettings):
        if any(disk.holds is Holds.FOLDER for disk in p.disk.also):
            yield (
                _KEY,
                f"a {program.kind} log is in one file system: xfs-log, xfs-realtime or stripe; "
                "folders are for programs (workload.kind: program)",
            )
        yield from _of_machine(p)
    elif place_of(p).machine == LOOP:
        yield "workload.where", "the kernel of this host has one loop device under test"
    elif place_of(p).virtual:
        yield from _of_machine(p)
    elif any(getattr(disk, key) is not None for disk in p.disk.also for key in OF_A_MACHINE):
        yield _KEY, f"{', '.join(OF_A_MACHINE)} are of a virtual machine, and none runs here"


def _of_machine(p: Parameters) -> Iterator[Reason]:
    machine = p.machine
    for key in _OF_ONE_DISK:
        if getattr(machine, key) != MachineSettings.model_fields[key].default:
            yield f"machine.{key}", "with several disks it is left out: none was tried with it"
    buses = {machine.bus, *(disk.bus for disk in p.disk.also if disk.bus is not None)}
    for bus in sorted(buses & NAMELESS, key=lambda bus: bus.value):
        yield "machine.bus", f"a disk on {bus.value} does not tell the guest which of several it is"
    for disk in p.disk.also:
        mode, aio = disk.cache or machine.cache, disk.aio or machine.aio
        if aio is Aio.NATIVE and not machine.direct.of(mode.direct):
            yield (
                _KEY,
                f"{disk.name}: aio native works with O_DIRECT only (cache none or directsync)",
            )
