# SPDX-License-Identifier: Apache-2.0
"""Known reasons why a cell is not safe: which layer breaks which promise, and where to read it.

One table for everybody.  A reason is named only if its settings are those of the cell, and if such
a cut can take what it leaves in a cache: a loss that no entry accounts for is reported as unknown,
which is the more interesting finding.  Where what was seen on the wire names another layer, that
is said.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from powercut.checkers.live import LIVE_ONLY, live_words
from powercut.model.contract import CutKind, Honour
from powercut.model.machine import Bus, Start
from powercut.model.verdict import EvidenceLevel, FindingKind, Verdict
from powercut.scenario.settings import (
    Expect,
    FilesystemType,
    GuestWriteCache,
    Parameters,
    SyncMode,
    WalSettings,
)
from powercut.store.measurement import WireAccount
from powercut.store.reasons import in_groups
from powercut.store.results import CellResult
from powercut.trial.controls import WITHOUT_BARRIERS

NOT_ALONE: Final = "its control `honest`, which puts that right,"
"""Begins what is said where a cell's honest twin did not come out SAFE."""

NOT_THERE: Final = "which none of the causes named accounts for: a finding to look into"

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

_USB: Final = Cause(
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


@dataclass(frozen=True)
class Explanation:
    """Why a cell is not safe; all of it is empty for one that is."""

    cause: str = ""
    """Of a loss: which layer breaks which promise.  Cells of one cause have the same words."""

    layer: str = ""
    """Of a loss with a known cause: the topmost layer that breaks its promise."""

    details: tuple[str, ...] = ()
    """What holds for this cell alone."""

    def __str__(self) -> str:
        return "; ".join(filter(None, (self.cause, *self.details)))


def explanation_of(cell: CellResult, wire: WireAccount | None = None) -> Explanation:
    """For a cell that is not safe: which layer breaks which promise, or why it is unknown."""
    if cell.verdict is Verdict.SAFE:
        return Explanation()
    if cell.verdict is Verdict.SURVIVED:
        bound = cell.loss_probability_upper_95
        return Explanation(details=(live_words(cell.trials_in_all, bound),))
    if cell.verdict is Verdict.INCONCLUSIVE:
        return Explanation(details=_why_unknown(cell))
    causes = causes_of(cell.parameters)
    told = [f"{cause}" for cause in causes] or [UNKNOWN]
    details: list[str] = []
    if wire is not None and wire.flush_ends_at:
        seen = f"on the wire, promises of durability end at the {wire.flush_ends_at}"
        details.append(f"{seen}: {wire.because}" if wire.because else seen)
        if causes and wire.flush_ends_at not in {cause.layer for cause in causes}:
            details.append(NOT_THERE)
    if not causes:
        details += _first_words(cell)
    if cell.evidence_level is EvidenceLevel.LIVE_ONLY:
        details.append(LIVE_ONLY)
    return Explanation(
        cause="; ".join([*told, *_of_its_twin(cell)]),
        layer=causes[0].layer if causes else "",
        details=tuple(details),
    )


def _of_its_twin(cell: CellResult) -> list[str]:
    """What its honest twin says against the causes of a loss; nothing if it kept its records."""
    verdicts = {c.verdict for c in cell.controls if c.expected is Expect.SAFE and not c.behaved}
    if Verdict.LOSSY in verdicts:
        return [f"{NOT_ALONE} is LOSSY, too: that this is the cause is not shown"]
    return (
        [f"{NOT_ALONE} came to no verdict: that this is the cause is not shown"] if verdicts else []
    )


def _why_unknown(cell: CellResult) -> tuple[str, ...]:
    """Why nothing can be said of an inconclusive cell."""
    parts = (f"{_USB}",) if _USB.applies(cell.parameters) and _preset_missed(cell) else ()
    told = in_groups(cell.reasons, cell.trials, several=cell.trials_in_all > 1)
    return (*parts, *told) or ("no trial came to a verdict",)


def _preset_missed(cell: CellResult) -> bool:
    return FindingKind.NOT_AS_CONFIGURED in cell.findings


def _first_words(cell: CellResult) -> list[str]:
    worst = cell.worst_trial
    if worst is None:
        return []
    return [f.message for f in worst.findings if f.verdict is Verdict.LOSSY][:1]
