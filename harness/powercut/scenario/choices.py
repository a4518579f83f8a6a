# SPDX-License-Identifier: Apache-2.0
"""The words that a setting may take, other than those of the model."""

from __future__ import annotations

import enum
from typing import Final


class GuestWriteCache(enum.Enum):
    """What the guest's kernel is told about the disk's write cache.

    `write-through` is told to the kernel alone, which then believes that there is nothing to
    flush.  `switched-off` is told to the disk, through its driver (`cache_type`): the disk
    then makes each write durable itself.
    """

    AS_PROMISED = "as-promised"
    WRITE_THROUGH = "write-through"
    SWITCHED_OFF = "switched-off"


class Switch(enum.Enum):
    """One part of a cache mode: as the mode has it, or given separately."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"

    def of(self, implied: bool) -> bool:
        return implied if self is Switch.AUTO else self is Switch.ON


class AcceleratorChoice(enum.Enum):
    """What runs the guest: the best that this host proves to have, or one by name."""

    AUTO = "auto"
    KVM = "kvm"
    TCG = "tcg"


class DiskModel(enum.Enum):
    """How long a flush takes, by the kind of disk; `plp` has power-loss protection."""

    TYPICAL = "typical"
    NONE = "none"
    NVME_PLP = "nvme-plp"
    SATA_SSD_PLP = "sata-ssd-plp"
    NVME = "nvme"
    SATA_SSD = "sata-ssd"
    HDD_7200 = "hdd-7200"


FLUSH_LATENCY_NS: Final = {
    # A disk without power-loss protection, and longer than what is open about the instant of an
    # ack on a busy host (0.2 to 0.6 ms): so an ack that came before its sync shows.
    DiskModel.TYPICAL: 1_000_000,
    DiskModel.NONE: 0,
    # Intel SSD DC P3700, product specification: a sequential write takes 20 us typically.  With
    # protection, what is in the drive's cache is durable, and a flush has nothing to program.
    DiskModel.NVME_PLP: 20_000,
    DiskModel.SATA_SSD_PLP: 65_000,  # Intel SSD DC S3700, product specification: 65 us
    # Samsung 990 Pro: 0.89 ms (M. Callaghan, "SSDs, power loss protection and fsync latency",
    # 2026) to 1.6 ms (T. Poder, "Using Postgres pg_test_fsync", 2025).
    DiskModel.NVME: 900_000,
    # A consumer drive without power-loss protection.  Published latencies of an fsync are 0.9 to
    # 5 ms (M. Callaghan, as above; P. Zaitsev, "Why consumer SSD reviews are useless for database
    # performance use case", 2018: 3.5 ms).
    DiskModel.SATA_SSD: 1_000_000,
    # One turn of 7200 rpm: 60 s / 7200.  A log's next sector has just passed when the next write
    # comes.
    DiskModel.HDD_7200: 8_333_333,
}
"""Nanoseconds that a flush, or a write with FUA, takes on each kind of disk."""


class FilesystemType(enum.Enum):
    """What lies between the log and the disk."""

    XFS = "xfs"
    EXT4 = "ext4"
    BTRFS = "btrfs"
    F2FS = "f2fs"
    RAW = "raw"


class Layout(enum.Enum):
    """How the log lies in its file or on its device."""

    APPEND = "append"
    PREALLOC = "prealloc"
    PREWRITTEN = "prewritten"
    RECYCLED = "recycled"
    SEGMENTS = "segments"
    RAW = "raw"

    @property
    def wraps(self) -> bool:
        """Whether a full log begins again at its start."""
        return self in (Layout.RECYCLED, Layout.RAW)

    @property
    def bounded(self) -> bool:
        """Whether the workload ends when `capacity` is used up."""
        return self in (Layout.PREALLOC, Layout.PREWRITTEN)


class SyncMode(enum.Enum):
    """How the workload makes a commit durable."""

    NONE = "none"
    FSYNC = "fsync"
    FDATASYNC = "fdatasync"
    O_DSYNC = "o_dsync"
    O_SYNC = "o_sync"
    RWF_DSYNC = "rwf_dsync"
    ALTERNATE = "alternate"


class Engine(enum.Enum):
    """The system calls that the workload writes with."""

    PWRITE = "pwrite"
    LIBAIO = "libaio"
    IO_URING = "io_uring"


class Writeback(enum.Enum):
    """When the kernel under the workload writes back what no sync asked for."""

    PRESSED = "pressed"
    USUAL = "usual"


class ControlKind(enum.Enum):
    """Runs whose outcome is known in advance."""

    HONEST = "honest"
    LYING_DISK = "lying-disk"
    NO_SYNC = "no-sync"
    NO_FLUSH = "no-flush"

    def of(self, disk: str | None) -> str:
        """What reports call a control of this kind that is about one of several disks.

        No disk's name has a dot.
        """
        return self.value if disk is None else f"{self.value}.{disk}"


class Expect(enum.Enum):
    """The verdict that a cell should get."""

    SAFE = "safe"
    SURVIVED = "survived"  # the most that a machine can come to whose disk is not recorded
    LOSSY = "lossy"


class ExploreModel(enum.Enum):
    """Which crash states count as legal."""

    EXACT = "exact"
    EPOCH = "epoch"
    PREFIX = "prefix"


class ExploreEngine(enum.Enum):
    """What recovers crash states."""

    AUTO = "auto"
    RAW = "raw"
    UML = "uml"
    GUEST = "guest"


class ExplorePolicy(enum.Enum):
    """Who draws crash states."""

    REPRESENTATIVES = "representatives"
    DURABLE_ONLY = "durable-only"
    EVERYTHING_ISSUED = "everything-issued"
    ALL_BUT_ONE = "all-but-one"
    ONLY_ONE = "only-one"
    PREFIXES = "prefixes"
    TORN = "torn"
    REORDER = "reorder"
    RANDOM_SUBSETS = "random-subsets"


SMALLEST_DISK: Final = {
    FilesystemType.XFS: 16 << 20,  # mkfs.xfs --unsupported, xfsprogs 6.1
    FilesystemType.EXT4: 2 << 20,  # with a journal
    FilesystemType.BTRFS: 114_294_784,  # mkfs.btrfs, btrfs-progs 6.2
    FilesystemType.F2FS: 52 << 20,  # mkfs.f2fs, f2fs-tools 1.15
    FilesystemType.RAW: 0,
}
"""Bytes that mkfs asks for."""

WITHOUT_BARRIERS: Final = frozenset({"barrier=0", "nobarrier"})
"""Mount options of ext4 and btrfs with which a file system sends no flush (ext4(5), btrfs(5))."""
