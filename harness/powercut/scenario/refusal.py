# SPDX-License-Identifier: Apache-2.0
"""Combinations that cannot work, or that cannot mean what they say.

Each rule yields a dotted key and a reason.  All rules are asked, so that a person
sees every reason at once and nothing boots before they are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from powercut.model.contract import CutKind, CutPolicy
from powercut.model.machine import (
    Aio,
    BackingImage,
    Bus,
    CacheMode,
    Export,
    ImageFormat,
    Start,
    is_dax,
)
from powercut.scenario.choices import SMALLEST_DISK
from powercut.scenario.format_options import refused_format_options
from powercut.scenario.machines import UML, USUAL
from powercut.scenario.mkfs_options import refused_mkfs_options
from powercut.scenario.place import place_of
from powercut.scenario.quantity import format_size
from powercut.scenario.refusal_foreign import refusals_of_place
from powercut.scenario.refusal_hotplug import refusals_of_hotplug
from powercut.scenario.refusal_layers import refusals_of_layers
from powercut.scenario.refusal_live import refusals_of_level
from powercut.scenario.refusal_moves import refusals_of_moves
from powercut.scenario.refusal_queues import refusals_of_queues
from powercut.scenario.refusal_several import refusals_of_several
from powercut.scenario.settings import (
    DiskModel,
    FilesystemType,
    GuestWriteCache,
    Parameters,
    ProgramSettings,
    Switch,
)
from powercut.scenario.workloads import WORKLOADS, load

Reason = tuple[str, str]
Rule = Callable[[Parameters], Iterator[Reason]]


def refusals(parameters: Parameters) -> tuple[Reason, ...]:
    """Why `parameters` cannot be run: (dotted key, reason) each; empty if they can."""
    rows = WORKLOADS[parameters.workload.kind].refusals
    of_workload: list[Rule] = [load(place) for place in rows]
    rules = (
        _sizes,
        *of_workload[:1],
        refusals_of_place,
        refusals_of_level,
        *_RULES,
        *of_workload[1:],
    )
    return tuple(reason for rule in rules for reason in rule(parameters))


def _sizes(p: Parameters) -> Iterator[Reason]:
    smallest = SMALLEST_DISK[p.filesystem.type]
    if p.disk.size < smallest:
        yield (
            "disk.size",
            f"{p.filesystem.type.value} needs a disk of at least {format_size(smallest)}",
        )


def _f2fs(p: Parameters) -> Iterator[Reason]:
    if p.filesystem.type is FilesystemType.F2FS and place_of(p).machine != UML:
        yield (
            "filesystem.type",
            "the kernels of guests come without f2fs: take a program in User-Mode Linux "
            "(workload.kind: program)",
        )


def _disk(p: Parameters) -> Iterator[Reason]:
    disk = p.disk
    if disk.cache_size and not disk.volatile_cache:
        yield "disk.cache_size", "there is no volatile cache to have a size"
    if disk.model not in (DiskModel.TYPICAL, DiskModel.NONE):
        for key in ("flush_latency", "fua_latency"):
            if getattr(disk, key) is not None:
                yield f"disk.{key}", f"model {disk.model.value} says so already; give one of them"


def _errors(p: Parameters) -> Iterator[Reason]:
    if not p.disk.errors:
        return
    if not isinstance(p.workload, ProgramSettings) or place_of(p).virtual:
        yield (
            "disk.errors",
            "only a program under User-Mode Linux or on a loop device meets them; take one "
            "(workload.kind: program)",
        )
    names = [p.disk.name, *(disk.name for disk in p.disk.also)] if p.disk.also else []
    for error in p.disk.errors:
        if error.disk is not None and error.disk not in names:
            there = ", ".join(names) or "one alone, which needs none"
            yield "disk.errors", f"there is no disk {error.disk}; there are {there}"


def _cut(p: Parameters) -> Iterator[Reason]:
    cut = p.cut
    if cut.kind is not CutKind.POWER_LOSS and cut.policy is not CutPolicy.KEEP:
        yield (
            "cut.policy",
            f"{cut.kind.value} leaves the disk's power on, so that its cache keeps everything; "
            "leave the policy out, or cut with power-loss",
        )
    if p.disk.ordered and cut.policy is CutPolicy.RANDOM:
        yield "cut.policy", "a disk that keeps order loses a tail, never some by chance: use prefix"
    moment = cut.trigger.after or (cut.trigger.random or (0, 0))[1]
    if moment >= p.deadline:
        yield "cut.trigger", "the trial would miss its deadline before the cut comes"
    if cut.trigger.flushes is not None:
        if cut.kind is CutKind.GUEST_CRASH:
            yield (
                "cut.trigger",
                "guest-crash lets QEMU end in its usual order, which waits for the flush at which "
                "the disk has stopped; use acks, after or random",
            )
        # An NVMe controller always says that it has a cache, so that the guest flushes.
        cache = p.machine.host_cache
        if not cache.write_cache and p.machine.bus is not Bus.NVME:
            mode = "machine.write_cache: off"
            if p.machine.write_cache is Switch.AUTO:
                mode = f"cache mode {p.machine.cache.value}"
            yield "cut.trigger", f"{mode} sends writes with FUA and no flush at all"
        if cache.no_flush:
            unsafe = p.machine.no_flush is Switch.AUTO
            mode = "cache mode unsafe" if unsafe else "machine.no_flush"
            yield "cut.trigger", f"{mode} drops every flush before it gets to the disk"
        if p.machine.guest_write_cache is not GuestWriteCache.AS_PROMISED:
            yield "cut.trigger", "a guest that believes in write-through sends no flush at all"
        if p.machine.bus is Bus.NVDIMM:
            yield "cut.trigger", "an NVDIMM has no flush that the disk could see"


def _machine(p: Parameters) -> Iterator[Reason]:
    if p.machine.start is Start.RESTORED and not p.machine.bus.restorable:
        yield "machine.start", f"no guest with a disk on {p.machine.bus.value} can be saved"
    if p.machine.config_wce is not Switch.AUTO and p.machine.bus is not Bus.VIRTIO_BLK:
        yield "machine.config_wce", "only a virtio-blk disk lets its guest switch the write cache"
    if p.machine.guest_write_cache is GuestWriteCache.SWITCHED_OFF:
        if p.machine.bus is not Bus.VIRTIO_BLK:
            yield "machine.guest_write_cache", "only a virtio-blk disk can be switched by its guest"
        elif p.machine.config_wce is Switch.OFF:
            yield "machine.guest_write_cache", "with config_wce off the guest may not switch it"


_PMEM_UNIT: Final = 2 << 20
"""Bytes: QEMU aligns memory devices to the guest's large pages."""


def _pmem(p: Parameters) -> Iterator[Reason]:
    """Memory is mapped: QEMU neither reads nor writes, and no block layer of its comes into it."""
    machine = p.machine
    if machine.aio is Aio.NATIVE and not machine.host_cache.direct:
        yield "machine.aio", "native works with O_DIRECT only: cache none or directsync, or direct"
    if not machine.bus.pmem:
        if any(is_dax(option) for option in p.filesystem.mount):
            yield "filesystem.mount", "dax needs a disk that is memory: virtio-pmem or nvdimm"
        return
    for key, idle in (
        ("cache", CacheMode.NONE),
        ("aio", Aio.NBD),
        ("write_cache", Switch.AUTO),
        ("direct", Switch.AUTO),
        ("no_flush", Switch.AUTO),
        ("format", ImageFormat.RAW),
    ):
        if getattr(machine, key) is not idle:
            yield f"machine.{key}", f"a disk on {machine.bus.value} is mapped memory; leave it out"
    dax = any(is_dax(option) for option in p.filesystem.mount)
    if dax and machine.bus is Bus.NVDIMM:
        # Linux describes its pages (ND_REGION_PAGEMAP) for virtio-pmem and not for an NFIT's.
        yield "filesystem.mount", "an NVDIMM has no dax before `ndctl create-namespace -m fsdax`"
    elif dax and p.filesystem.type is FilesystemType.EXT4 and "-b" not in p.filesystem.mkfs:
        # mke2fs gives small file systems small blocks, and ext4 refuses to mount them with dax.
        yield "filesystem.mkfs", "dax needs blocks of 4096 bytes: give mkfs [-b, '4096']"
    if p.cut.kind is not CutKind.POWER_LOSS:
        yield (
            "cut.kind",
            f"{p.cut.kind.value} leaves the host's page cache, where such a disk lives and where "
            "the capture disk does not see it; cut with power-loss",
        )
    if p.disk.size % _PMEM_UNIT:
        yield "disk.size", f"memory is a whole number of {format_size(_PMEM_UNIT)}"


def _mkfs(p: Parameters) -> Iterator[Reason]:
    if p.filesystem.type is FilesystemType.RAW:
        return  # said elsewhere
    for reason in refused_mkfs_options(p.filesystem.type.value, p.filesystem.mkfs):
        yield "filesystem.mkfs", reason


def _format(p: Parameters) -> Iterator[Reason]:
    machine = p.machine
    for reason in refused_format_options(machine.format, machine.format_options):
        yield "machine.format_options", reason
    if not machine.grows:
        return
    if machine.format is ImageFormat.RAW:
        yield "machine.grows", "a raw image has the size of its disk: give machine.format"
    if machine.aio is Aio.NBD:
        yield "machine.grows", "a disk of NBD has a fixed size: machine.aio: threads, for instance"


def _backing(p: Parameters) -> Iterator[Reason]:
    machine, key = p.machine, "machine.backing_image"
    if machine.backing_image is BackingImage.NONE:
        return
    if not machine.format.overlays:
        yield key, "an image that lies over another is qcow2 or qed: give machine.format"
    if not machine.grows:
        yield key, "an overlay is a file that grows: machine.grows: true, and an aio other than nbd"
    if any(option.startswith("preallocation=") for option in machine.format_options):
        yield "machine.format_options", "what is allocated beforehand hides the backing image"
    if machine.backend != USUAL:
        yield key, "QEMU is given an overlay by powercut: machine.backend: qemu"
    if machine.during:
        yield key, "two hypervisors would open the backing image; leave machine.during out"
    if p.workload.kind == "program":
        yield key, "what a program's `setup` makes would lie in the overlay: workload.kind: wal"


def _export(p: Parameters) -> Iterator[Reason]:
    machine, key = p.machine, "machine.export"
    if machine.export is Export.NONE:
        return
    if machine.backend != USUAL:
        yield key, "QEMU is given an export by powercut: machine.backend: qemu"
    if machine.bus.pmem or machine.grows:
        yield key, "it serves a disk of fixed size, and no memory"
    if (machine.export is Export.FUSE) != (machine.aio is not Aio.NBD):
        yield "machine.aio", "an export by fuse is a file (threads, native, io_uring), others none"
    if machine.export is not Export.VHOST_USER_BLK:
        return
    if machine.bus is not Bus.VIRTIO_BLK:
        yield "machine.bus", "vhost-user-blk is a virtio-blk device"
    if machine.format is not ImageFormat.RAW:
        yield "machine.format", "vhost-user-blk gives the guest the bytes of the disk"
    if machine.start is Start.RESTORED:
        yield "machine.start", "the memory of a guest with vhost-user is shared: it is booted"
    if machine.guest_write_cache is not GuestWriteCache.AS_PROMISED:
        yield "machine.guest_write_cache", "vhost-user-blk has a promise of its own: leave it out"
    if p.explore.depth:
        yield "explore.depth", "what a recovery behind vhost-user-blk flushes is not known"
    if p.workload.kind != "wal":
        yield key, "a guest behind vhost-user-blk cannot be asked whether its lines have come"


_RULES: Final[tuple[Rule, ...]] = (
    _disk,
    _errors,
    _machine,
    refusals_of_queues,
    refusals_of_hotplug,
    refusals_of_moves,
    _pmem,
    _mkfs,
    _f2fs,
    _format,
    _backing,
    _export,
    _cut,
    refusals_of_several,
    refusals_of_layers,
)
