# SPDX-License-Identifier: Apache-2.0
"""Known reasons why settings lose what was acknowledged: which layer breaks which promise.

One table for everybody.  A reason applies only if its settings are those of the cell, and if such a
cut can take what it leaves in a cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from powercut.model.contract import CutKind, Honour
from powercut.model.machine import Bus, Start
from powercut.scenario.choices import WITHOUT_BARRIERS
from powercut.scenario.layers import File
from powercut.scenario.settings import (
    FilesystemType,
    GuestWriteCache,
    Parameters,
    SyncMode,
    WalSettings,
)

UNKNOWN: Final = "The cause is not known to powercut: a finding to look into."


@dataclass(frozen=True)
class Cause:
    """One way to lose what was acknowledged."""

    layer: str
    """`workload`, `file system`, `guest block layer`, `hypervisor` or `disk`."""

    applies: Callable[[Parameters], bool]
    """Whether the settings of a cell are those under which it shows."""

    says: str
    """Which promise is broken, in a sentence."""

    reference: str
    """Where it is shown: a page below docs/ or a scenario."""

    remedy: str
    """What to change, in the words that the product takes."""

    needs_cache: bool = True
    """Whether it loses only what the disk's volatile cache loses."""

    def __str__(self) -> str:
        return f"{self.layer}: {self.says} ({self.reference})"


def _takes_the_cache(p: Parameters) -> bool:
    """Whether something that was never flushed can be lost: the disk's cache goes with the cut."""
    return p.disk.volatile_cache and p.cut.kind is CutKind.POWER_LOSS


def _has_image(p: Parameters, unsafe: Callable[[File], bool]) -> bool:
    return any(isinstance(layer, File) and unsafe(layer) for layer in p.disk.layers)


def _journals(p: Parameters) -> bool:
    return p.filesystem.type is not FilesystemType.RAW


def _ignores_flush(p: Parameters) -> bool:
    writes_back = p.machine.host_cache.write_cache or p.machine.bus is Bus.NVME
    return p.disk.flush is Honour.IGNORED and writes_back


def _ignores_fua(p: Parameters) -> bool:
    through = not p.machine.host_cache.write_cache
    return p.disk.fua is Honour.IGNORED and through


def _nvme_fua(p: Parameters) -> bool:
    return p.machine.bus is Bus.NVME and p.machine.host_cache.write_cache and _journals(p)


def _restored_ide(p: Parameters) -> bool:
    ide = p.machine.bus in (Bus.IDE, Bus.AHCI)
    return ide and p.machine.start is Start.RESTORED and not p.machine.host_cache.write_cache


_NO_CACHE: Final = (
    "a disk that obeys, or none of its volatile cache: hdparm -W0 /dev/DISK (SATA), "
    "sdparm --clear=WCE /dev/DISK (SCSI)"
)

_OF_A_LOSS: Final = (
    Cause(
        "workload",
        lambda p: isinstance(p.workload, WalSettings) and p.workload.plant != "none",
        "a fault was planted into it",
        "scenarios/planted/faults.yaml",
        "none: the fault shows that powercut finds such faults",
        needs_cache=False,
    ),
    Cause(
        "workload",
        lambda p: isinstance(p.workload, WalSettings) and p.workload.sync is SyncMode.NONE,
        "it acknowledges what it never asked to be made durable",
        "scenarios/lying/no-sync.yaml",
        "sync before acknowledging: fdatasync(2) or O_DSYNC; PRAGMA synchronous=FULL in SQLite, "
        "fsync=on in PostgreSQL, innodb_flush_log_at_trx_commit=1 in MySQL",
        needs_cache=False,
    ),
    Cause(
        "file system",
        lambda p: not WITHOUT_BARRIERS.isdisjoint(p.filesystem.mount),
        "mounted without barriers, it sends no flush, whatever the disk needs",
        "scenarios/certify/nightly/mount-options.yaml",
        "mount -o remount,barrier=1 DIR, and without nobarrier or barrier=0 in /etc/fstab",
    ),
    Cause(
        "file system",
        lambda p: _has_image(p, lambda image: image.is_without_barriers),
        "the host's, on which the image lies, is mounted without barriers and sends no flush",
        "scenarios/matrix/host-below.yaml",
        "mount -o remount,barrier=1 FOLDER on the host",
    ),
    Cause(
        "hypervisor",
        lambda p: _has_image(p, lambda image: image.drops_flushes),
        "a flush of the guest's is dropped: the image stays in the host's page cache",
        "scenarios/matrix/host-below.yaml",
        "cache=writeback or cache=none",
    ),
    Cause(
        "file system",
        lambda p: (
            p.filesystem.type is FilesystemType.EXT4
            and "^has_journal" in ",".join(p.filesystem.mkfs).split(",")
        ),
        "ext4 without a journal takes blocks and inodes of synced files for free after a crash, "
        "until e2fsck has mended its maps; here it was mounted unchecked",
        "docs/findings/ext4-without-a-journal.md",
        "e2fsck -p before each mount (the sixth field of /etc/fstab), or a journal: "
        "tune2fs -O has_journal",
        needs_cache=False,
    ),
    Cause(
        "guest block layer",
        lambda p: (
            p.machine.guest_write_cache is GuestWriteCache.WRITE_THROUGH
            and p.machine.host_cache.write_cache
        ),
        "told by queue/write_cache that the disk writes through, it drops every flush, while "
        "the disk still keeps completed writes in a volatile cache",
        "scenarios/lying/guest-believes-write-through.yaml",
        'echo "write back" > /sys/block/DISK/queue/write_cache',
    ),
    Cause(
        "hypervisor",
        lambda p: p.machine.host_cache.no_flush,
        "cache.no-flush (part of cache=unsafe) drops every flush, and with it what FUA and "
        "write-through are made of",
        "scenarios/matrix/unsafe-cache.yaml",
        "libvirt: virsh edit VM, <driver cache='none'/>; QEMU: -drive file=FILE,cache=none",
    ),
    Cause(
        "hypervisor",
        _nvme_fua,
        "the NVMe controller offers FUA and ignores it, so that the block that commits the "
        "file system's journal stays in the volatile cache until the next flush",
        "docs/buses-and-formats.md",
        "another bus (-device virtio-blk-pci,drive=ID), or cache=writethrough",
    ),
    Cause(
        "hypervisor",
        lambda p: p.machine.bus is Bus.NVDIMM,
        "an NVDIMM in an ordinary file has no flush: what the guest writes stays in the host's "
        "page cache",
        "scenarios/matrix/pmem.yaml",
        "-device virtio-pmem-pci,memdev=ID in place of -device nvdimm",
        needs_cache=False,
    ),
    Cause(
        "hypervisor",
        _restored_ide,
        "a restored IDE disk has a write cache that its guest was told it does not have",
        "docs/buses-and-formats.md",
        "another bus (-device virtio-blk-pci,drive=ID), or cache=writeback",
    ),
    Cause(
        "disk",
        _ignores_flush,
        "it acknowledges flushes and makes nothing durable (disk.flush: ignored)",
        "scenarios/lying/ignored-flush.yaml",
        _NO_CACHE,
    ),
    Cause(
        "disk",
        _ignores_fua,
        "it acknowledges writes with FUA before they are durable (disk.fua: ignored)",
        "scenarios/lying/ignored-flush.yaml",
        _NO_CACHE,
    ),
)

USB: Final = Cause(
    "hypervisor",
    lambda p: p.machine.bus is Bus.USB_STORAGE and not p.machine.host_cache.write_cache,
    "usb-storage does not hand its write-cache property on to the disk that it creates, so that "
    "another cache mode was tested than was asked for",
    "docs/buses-and-formats.md",
    "another bus, or a newer QEMU, which hands all properties over",
)


def causes_of(parameters: Parameters) -> tuple[Cause, ...]:
    """Every known cause of a loss under these settings, from the workload down."""
    taken = _takes_the_cache(parameters)
    return tuple(
        cause
        for cause in _OF_A_LOSS
        if cause.applies(parameters) and (taken or not cause.needs_cache)
    )
