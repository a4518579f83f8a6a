# SPDX-License-Identifier: Apache-2.0
"""The words for a machine's settings, shared by scenarios and by what builds machines."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, NamedTuple


class CacheMode(enum.Enum):
    """QEMU's names for the host's treatment of a virtual disk."""

    NONE = "none"
    WRITEBACK = "writeback"
    WRITETHROUGH = "writethrough"
    DIRECTSYNC = "directsync"
    UNSAFE = "unsafe"

    @property
    def write_cache(self) -> bool:
        """Whether the guest sees a volatile write cache."""
        return self not in (CacheMode.WRITETHROUGH, CacheMode.DIRECTSYNC)

    @property
    def direct(self) -> bool:
        """Whether QEMU bypasses the host's page cache."""
        return self in (CacheMode.NONE, CacheMode.DIRECTSYNC)

    @property
    def no_flush(self) -> bool:
        """Whether QEMU drops the guest's flushes."""
        return self is CacheMode.UNSAFE


@dataclass(frozen=True)
class CacheFlags:
    """What a cache mode consists of, each part separately; see the properties of `CacheMode`."""

    write_cache: bool
    direct: bool
    no_flush: bool


@dataclass(frozen=True)
class Queueing:
    """How a disk's requests come to the hypervisor: in so many queues (0: as it has it by default),
    and whether they are handled in a thread of their own (`iothread`)."""

    iothread: bool = False
    queues: int = 0


USUAL_QUEUEING: Final = Queueing()
"""As the hypervisor has it by default."""


HostCache = CacheMode | CacheFlags
"""QEMU's treatment of a disk: a named mode, or any combination of its parts."""


class Bus(enum.Enum):
    """How the guest reaches its disk.

    `virtio-scsi-fua` is virtio-scsi whose disk says that it knows FUA (`dpofua=on`,
    which is not QEMU's default).
    """

    VIRTIO_BLK = "virtio-blk"
    VIRTIO_SCSI = "virtio-scsi"
    VIRTIO_SCSI_FUA = "virtio-scsi-fua"
    NVME = "nvme"
    IDE = "ide"
    AHCI = "ahci"
    USB_STORAGE = "usb-storage"
    VIRTIO_PMEM = "virtio-pmem"
    NVDIMM = "nvdimm"

    @property
    def pmem(self) -> bool:
        """Whether the disk is memory: a file that the hypervisor maps into the guest."""
        return self in (Bus.VIRTIO_PMEM, Bus.NVDIMM)

    @property
    def device(self) -> str:
        """What Linux calls the first disk on this bus."""
        names = {Bus.VIRTIO_BLK: "vda", Bus.NVME: "nvme0n1"}
        return "pmem0" if self.pmem else names.get(self, "sda")

    @property
    def modules(self) -> str:
        """The set of kernel modules that a guest needs besides those of every guest."""
        sets = {Bus.VIRTIO_BLK: "", Bus.VIRTIO_SCSI_FUA: "virtio-scsi", Bus.VIRTIO_PMEM: "pmem"}
        return sets.get(self, self.value)

    @property
    def flavour(self) -> str:
        """The guest kernel that has a driver: Debian's for clouds knows neither AHCI nor USB."""
        return "full" if self in (Bus.AHCI, Bus.USB_STORAGE) else "cloud"

    @property
    def threaded(self) -> bool:
        """Whether QEMU can handle the disk's requests in a thread of their own (`iothread`)."""
        return self in (Bus.VIRTIO_BLK, Bus.VIRTIO_SCSI, Bus.VIRTIO_SCSI_FUA)

    @property
    def multiqueue(self) -> bool:
        """Whether the disk may have more than one queue of requests, as many as it is told."""
        return self.threaded or self is Bus.NVME

    @property
    def is_pci_function(self) -> bool:
        """Whether the disk is a PCI function, and not a device behind a controller."""
        return self in (Bus.VIRTIO_BLK, Bus.NVME)

    @property
    def hotpluggable(self) -> bool:
        """Whether the disk can be plugged into a guest that runs, on a board `pc`."""
        behind = (Bus.VIRTIO_SCSI, Bus.VIRTIO_SCSI_FUA, Bus.USB_STORAGE)
        return self.is_pci_function or self in behind

    @property
    def restorable(self) -> bool:
        """Whether a guest with such a disk can be saved and restored.

        QEMU's NVMe controller cannot (`unmigratable` in hw/nvme/ctrl.c).  Memory would be saved
        with the guest's.
        """
        return self is not Bus.NVME and not self.pmem

    def same_restored(self, cache: HostCache) -> bool:
        """Whether a restored guest treats the disk as a booted one does.

        A restored IDE disk of QEMU has a write cache, whatever it had before
        (docs/buses-and-formats.md).
        """
        return self.restorable and (self not in (Bus.IDE, Bus.AHCI) or cache.write_cache)


class Start(enum.Enum):
    """How a guest comes to run.

    `restored`: it was booted before, saved with its devices' state, and continues in another
    hypervisor process, as after a live migration or a resumed suspension.  `auto` restores
    where that makes no difference.
    """

    AUTO = "auto"
    BOOTED = "booted"
    RESTORED = "restored"


class Move(enum.Enum):
    """How a guest that runs comes to another hypervisor, which opens the same disk.

    `migrate`: live, its RAM is sent while it runs.  `save-restore`: it is saved to a file, its
    hypervisor ends, and another one takes it up from there.
    """

    MIGRATE = "migrate"
    SAVE_RESTORE = "save-restore"


class Restart(enum.Enum):
    """How a guest that runs is started anew, from the disk that it has written so far.

    `restart`: the guest is reset, as by a watchdog or the reset button, and boots again in the same
    hypervisor.  `relaunch`: its hypervisor ends in its usual order, and another one boots it.
    """

    RESTART = "restart"
    RELAUNCH = "relaunch"


class Aio(enum.Enum):
    """How the hypervisor reaches the disk: by NBD, or as a file, with these system calls."""

    NBD = "nbd"
    THREADS = "threads"
    NATIVE = "native"
    IO_URING = "io_uring"


class Export(enum.Enum):
    """What stands between the captured disk and the hypervisor: an export of qemu-storage-daemon,
    by its name there; or nothing."""

    NONE = "none"
    NBD = "nbd"
    FUSE = "fuse"
    VHOST_USER_BLK = "vhost-user-blk"


def is_dax(mount_option: str) -> bool:
    """Whether it asks a file system for files that are mapped straight onto the disk."""
    return mount_option in ("dax", "dax=always")


IMAGE_REPAIR: Final = "qemu-img check -r all"
"""What the user of an image does that QEMU does not open as it was left."""


class ImageFormat(enum.Enum):
    """What the image holds in which QEMU keeps the guest's disk; the names are QEMU's."""

    RAW = "raw"
    QCOW2 = "qcow2"
    VDI = "vdi"
    VMDK = "vmdk"
    VHDX = "vhdx"
    VPC = "vpc"
    QED = "qed"
    PARALLELS = "parallels"

    @property
    def grows(self) -> bool:
        """Whether QEMU can allocate in an image on a disk of fixed size."""
        return _ROWS[self].grows

    @property
    def alone(self) -> dict[str, None]:
        """What tells QEMU to open no backing file, whatever the image names as one."""
        return {"backing": None} if _ROWS[self].names_backing else {}

    @property
    def overlays(self) -> bool:
        """Whether an image can lie over one of another format."""
        return _ROWS[self].overlays

    @property
    def checked(self) -> bool:
        """Whether `qemu-img check` knows the format."""
        return _ROWS[self].checked

    @property
    def repaired_first(self) -> bool:
        """Whether its user has to repair an image that says that it was in use before QEMU opens it
        again: IMAGE_REPAIR is then the first step of recovery."""
        return _ROWS[self].repaired_first


class _Row(NamedTuple):
    """What there is to know of a format; the properties of `ImageFormat` say what it means."""

    grows: bool = False
    names_backing: bool = False
    overlays: bool = False
    checked: bool = True
    repaired_first: bool = False


_ROWS: Final = {
    ImageFormat.RAW: _Row(checked=False),
    ImageFormat.QCOW2: _Row(grows=True, names_backing=True, overlays=True),
    ImageFormat.VDI: _Row(grows=True),
    # New blocks go to the end of the file and make it longer, which no NBD server allows:
    # next_cluster_sector in block/vmdk.c, vhdx_allocate_block in block/vhdx.c, qed_alloc_clusters
    # in block/qed.c.  A VMDK lies over a VMDK only, whose content's number it names (vmdk_create).
    ImageFormat.VMDK: _Row(names_backing=True),
    ImageFormat.VHDX: _Row(),
    ImageFormat.VPC: _Row(grows=True, checked=False),
    ImageFormat.QED: _Row(names_backing=True, overlays=True),
    # "Image was not closed correctly": parallels_open in block/parallels.c.
    ImageFormat.PARALLELS: _Row(grows=True, repaired_first=True),
}


class BackingImage(enum.Enum):
    """What lies below an image that is an overlay: an image in this format; or nothing."""

    NONE = "none"
    RAW = "raw"
    QCOW2 = "qcow2"

    @property
    def format(self) -> ImageFormat:
        """Its format.  Raises ValueError for none."""
        return ImageFormat(self.value)


class Accelerator(enum.Enum):
    """What runs the guest's instructions."""

    KVM = "kvm"
    TCG = "tcg"
