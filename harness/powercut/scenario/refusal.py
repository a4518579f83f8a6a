# SPDX-License-Identifier: Apache-2.0
"""Combinations that cannot work, or that cannot mean what they say.

Each rule yields a dotted key and a reason.  All rules are asked, so that a person
sees every reason at once and nothing boots before they are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from powercut.model.contract import CutKind, CutPolicy
from powercut.model.machine import Aio, Bus, CacheMode, ImageFormat, Start, is_dax
from powercut.model.units import SECTOR
from powercut.scenario.format_options import refused_format_options
from powercut.scenario.mkfs_options import refused_mkfs_options
from powercut.scenario.quantity import format_size
from powercut.scenario.settings import (
    DiskModel,
    Engine,
    FilesystemType,
    GuestWriteCache,
    Layout,
    Parameters,
    Switch,
    SyncMode,
)

Reason = tuple[str, str]

SMALLEST_DISK: Final = {
    FilesystemType.XFS: 16 << 20,  # mkfs.xfs --unsupported, xfsprogs 6.1
    FilesystemType.EXT4: 2 << 20,  # with a journal
    FilesystemType.BTRFS: 114_294_784,  # mkfs.btrfs, btrfs-progs 6.2
    FilesystemType.RAW: 0,
}
"""Bytes that mkfs asks for."""

GROUP_MAX: Final = 1 << 30
"""Bytes that the workload accepts for a group commit."""


def refusals(parameters: Parameters) -> tuple[Reason, ...]:
    """Why `parameters` cannot be run: (dotted key, reason) each; empty if they can."""
    return tuple(reason for rule in _RULES for reason in rule(parameters))


def _layout(p: Parameters) -> Iterator[Reason]:
    raw_disk = p.filesystem.type is FilesystemType.RAW
    raw_log = p.workload.layout is Layout.RAW
    if raw_disk and not raw_log:
        yield (
            "workload.layout",
            f"layout {p.workload.layout.value} needs a file system, and there is none; use raw",
        )
    if raw_log and not raw_disk:
        yield (
            "workload.layout",
            f"layout raw writes to the device itself, under the {p.filesystem.type.value} on it; "
            "set filesystem.type to raw",
        )
    if raw_disk and (p.filesystem.mkfs or p.filesystem.mount):
        key = "filesystem.mkfs" if p.filesystem.mkfs else "filesystem.mount"
        yield key, "there is no file system to make or to mount"


def _sizes(p: Parameters) -> Iterator[Reason]:
    smallest = SMALLEST_DISK[p.filesystem.type]
    if p.disk.size < smallest:
        yield (
            "disk.size",
            f"{p.filesystem.type.value} needs a disk of at least {format_size(smallest)}",
        )
    log = p.workload
    if log.layout is Layout.APPEND:
        return
    if log.layout is Layout.RAW:
        if log.capacity > p.disk.size:
            yield (
                "workload.capacity",
                f"the log is larger than the disk ({format_size(p.disk.size)})",
            )
    elif log.capacity > p.disk.size // 2:
        yield (
            "workload.capacity",
            "the log may take half of the disk at most "
            f"({format_size(p.disk.size // 2)}): the file system and its journal need room",
        )
    if log.layout is Layout.SEGMENTS:
        if log.segment > log.capacity:
            yield "workload.segment", "a segment is larger than the log"
        if log.stride > log.segment:
            yield "workload.segment", "a segment does not hold a single record"
        if log.segment % 4096:
            yield "workload.segment", "a segment is a multiple of 4096 bytes"
        if log.capacity % log.segment:
            yield "workload.capacity", "the log is a whole number of segments"
    elif log.stride > log.capacity:
        yield "workload.capacity", "the log does not hold a single record"


def _alternate(p: Parameters) -> Iterator[Reason]:
    log = p.workload
    if log.sync is SyncMode.ALTERNATE and log.layout is Layout.SEGMENTS:
        yield (
            "workload.sync",
            "alternate flushes while the next writes go on, which one file only allows; "
            "take another layout than segments",
        )


def _records(p: Parameters) -> Iterator[Reason]:
    log, trigger = p.workload, p.cut.trigger
    if log.layout.bounded and log.slots is not None:
        if trigger.acks is not None and trigger.acks > log.slots:
            yield (
                "cut.trigger",
                f"the log is full after {log.slots} records: the cut would never come",
            )
        if log.records > log.slots:
            yield "workload.records", f"the log is full after {log.slots} records"
    if log.records and trigger.acks is not None and trigger.acks > log.records:
        yield "cut.trigger", f"the workload ends after {log.records} records, before the cut"
    if log.think % 1000:
        yield "workload.think", "a pause is a whole number of microseconds"


def _engine(p: Parameters) -> Iterator[Reason]:
    log = p.workload
    if log.engine is Engine.PWRITE and log.depth > 1:
        yield "workload.depth", "pwrite has one write in flight; use libaio or io_uring"
    if log.streams * log.batch * log.record > GROUP_MAX:
        yield "workload.batch", "a group commit would take more than 1 GiB"
    if log.engine is Engine.LIBAIO and not log.direct:
        yield (
            "workload.engine",
            "libaio is asynchronous with O_DIRECT only; set workload.direct, or use io_uring",
        )


def _plant(p: Parameters) -> Iterator[Reason]:
    log = p.workload
    fault, _, number = log.plant.partition(":")
    call = log.sync in (SyncMode.FSYNC, SyncMode.FDATASYNC)
    reasons = {
        "early-ack": (log.sync is not SyncMode.NONE, "every ack is early already: sync is none"),
        "ack-ahead": (
            log.sync not in (SyncMode.NONE, SyncMode.ALTERNATE),
            "no commit has a sync of its own to be ahead of; set sync to another than none and "
            "alternate",
        ),
        "skip-sync": (
            call or log.sync is SyncMode.RWF_DSYNC,
            "there is no sync to skip; set sync to fsync, fdatasync or rwf_dsync",
        ),
        "ack-failed-sync": (call, "there is no sync to fail; set sync to fsync or fdatasync"),
        "wrong-offset": (number != "1", "there is no record before the first to overwrite"),
        "torn-write": (
            log.record >= 2 * SECTOR,
            "a record within one sector does not tear; set record to 1024 at least",
        ),
        "replay-old": (
            log.layout in (Layout.PREWRITTEN, Layout.RECYCLED, Layout.RAW)
            and log.sync is not SyncMode.ALTERNATE,
            "nothing older can be put back there; set layout to prewritten, recycled or raw, and "
            "sync to another than alternate",
        ),
    }
    possible, reason = reasons.get(fault, (True, ""))
    if not possible:
        yield "workload.plant", reason


def _visible(p: Parameters) -> Iterator[Reason]:
    """Records must stand on the disk as written, or exposure sees losses that are none."""
    if p.filesystem.type is not FilesystemType.BTRFS:
        return
    if "max_inline=0" not in p.filesystem.mount:
        reason = "btrfs keeps small files inside its tree, where records cannot be seen"
        yield "filesystem.mount", f"{reason}: add max_inline=0"
    if any(option.startswith("compress") for option in p.filesystem.mount):
        yield "filesystem.mount", "compressed records cannot be seen on the disk"


def _commit(p: Parameters) -> Iterator[Reason]:
    """A commit is written as one piece of the log."""
    workload = p.workload
    records = workload.streams * workload.batch
    if records == 1:
        return  # whether a single record fits is asked elsewhere
    if workload.layout is Layout.SEGMENTS and records * workload.stride > workload.segment:
        yield "workload.segment", f"the {records} records of one commit do not fit in a segment"
    elif workload.slots is not None and records > workload.slots:
        yield "workload.capacity", f"the {records} records of one commit do not fit in the log"


def _disk(p: Parameters) -> Iterator[Reason]:
    disk = p.disk
    if disk.cache_size and not disk.volatile_cache:
        yield "disk.cache_size", "there is no volatile cache to have a size"
    if disk.model not in (DiskModel.TYPICAL, DiskModel.NONE):
        for key in ("flush_latency", "fua_latency"):
            if getattr(disk, key) is not None:
                yield f"disk.{key}", f"model {disk.model.value} says so already; give one of them"


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
        if p.workload.sync is SyncMode.NONE:
            yield "cut.trigger", "a workload that never syncs may not flush before the deadline"


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
    for reason in refused_format_options(p.machine.format, p.machine.format_options):
        yield "machine.format_options", reason


def _explore(p: Parameters) -> Iterator[Reason]:
    if p.filesystem.type is FilesystemType.RAW:
        grows = p.machine.format is not ImageFormat.RAW  # the format allocates
        for key, value in (("after", 0 if grows else p.explore.after), ("depth", p.explore.depth)):
            if value:
                yield (
                    f"explore.{key}",
                    "recovery of a log on the device itself reads it and writes nothing: there is "
                    "no life after it that could go wrong, and nothing in it to be cut; set it to "
                    "0 where filesystem.type is raw",
                )


_RULES: Final[tuple[Callable[[Parameters], Iterator[Reason]], ...]] = (
    _layout,
    _alternate,
    _sizes,
    _records,
    _engine,
    _plant,
    _visible,
    _commit,
    _disk,
    _machine,
    _pmem,
    _mkfs,
    _format,
    _cut,
    _explore,
)
