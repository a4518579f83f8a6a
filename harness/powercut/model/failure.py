# SPDX-License-Identifier: Apache-2.0
"""Every way in which a guest, its recovery or a reader can fail, and what follows from it.

A failure is a *finding* only if what is on the disk is at fault: the system was given its
disk, the disk answered every request, and the same system had accepted such a disk before.
Everything else is *trouble*: it says nothing about the disk, and the verdict is
INCONCLUSIVE, with the reason and a remedy.  What is unknown is trouble.

The table is `Failure`; docs/trouble.md shows it.  Functions below lead from an errno to a
member.  No text of a kernel or of a tool is looked at.
"""

from __future__ import annotations

import enum
import errno
from typing import Final


class Side(enum.Enum):
    """What a failure says."""

    FINDING = "finding"
    TROUBLE = "trouble"


class Failure(enum.Enum):
    """A way to fail: its name in files, its side, why it is on it, and what to do next."""

    # The mount
    MOUNT_DAMAGED = (
        "mount-damaged",
        Side.FINDING,
        "the file system says that its structures are damaged (EUCLEAN, EBADMSG)",
        "powercut minimize names the write that is missing",
    )
    MOUNT_REFUSED = (
        "mount-refused",
        Side.FINDING,
        "the file system refuses a disk that can be read to its end, and the same kernel has "
        "mounted this file system with these options before (EINVAL, EIO, ENOENT, ...)",
        "powercut minimize names the write that is missing",
    )
    MOUNT_UNPROVED = (
        "mount-unproved",
        Side.TROUBLE,
        "the mount was refused, and this kernel mounts a fresh file system of this kind with "
        "these options no better, or was never seen to: the options or the kernel may be at fault",
        "recover with the recorded kernel (--engine guest), or drop options that it does not know",
    )
    MOUNT_NO_MEMORY = (
        "mount-no-memory",
        Side.TROUBLE,
        "the system had no memory left for the mount (ENOMEM)",
        "raise machine.memory, or recover fewer states at a time",
    )
    MOUNT_UNSUPPORTED = (
        "mount-unsupported",
        Side.TROUBLE,
        "the kernel does not have this file system, or a part of it (ENODEV, ENOSYS)",
        "choose a kernel that has it (machine.kernel; a realtime device takes CONFIG_XFS_RT), or "
        "recover in a guest",
    )
    MOUNT_BUSY = (
        "mount-busy",
        Side.TROUBLE,
        "something else had the disk or the mount point (EBUSY)",
        "repeat the trial",
    )
    MOUNT_INTERRUPTED = (
        "mount-interrupted",
        Side.TROUBLE,
        "the mount was interrupted (EINTR, EAGAIN)",
        "repeat the trial",
    )
    MOUNT_FORBIDDEN = (
        "mount-forbidden",
        Side.TROUBLE,
        "the system may not mount this disk, or may not write to it (EPERM, EACCES, EROFS)",
        "check what machine.disk and the mount options allow",
    )
    MOUNT_UNKNOWN = (
        "mount-unknown",
        Side.TROUBLE,
        "mount(2) failed in a way that no rule is known for",
        "look at the guest's console, and report the errno",
    )
    LAYER_REFUSED = (
        "layer-refused",
        Side.FINDING,
        "a layer below the file system is not activated, twice, on a disk that can be read to its "
        "end, and the same kernel has activated it on the disk as it was before (EINVAL, EIO, ...)",
        "powercut minimize names the write that is missing",
    )
    # Before the mount
    DEVICE_MISSING = (
        "device-missing",
        Side.TROUBLE,
        "the guest did not find its disk",
        "look at the guest's console for the disk's driver; powercut doctor tests the host",
    )
    MODULE_FAILED = (
        "module-failed",
        Side.TROUBLE,
        "a kernel module did not load",
        "remove the guest image (powercut doctor names its folder): the next run makes it again",
    )
    STEP_FAILED = (
        "step-failed",
        Side.TROUBLE,
        "a step of recovery failed that asks nothing of what is on the disk",
        "look at the guest's console",
    )
    # The disk below
    DISK_FAILED = (
        "disk-failed",
        Side.TROUBLE,
        "the disk did not answer every request: its host, or the way to it, failed",
        "check the host's own disk and kernel log; repeat the trial",
    )
    IMAGE_FAILED = (
        "image-failed",
        Side.TROUBLE,
        "the disk below answers, and QEMU's driver of the image format failed a request",
        "look at what qemu-img check says of the image (powercut export writes it), and at "
        "docs/findings/README.md",
    )
    NOT_REPEATED = (
        "not-repeated",
        Side.TROUBLE,
        "the system failed on this disk once, and it came back when it was booted again",
        "repeat the trial on a host with less load",
    )
    # The reader
    LOG_DAMAGED = (
        "log-damaged",
        Side.FINDING,
        "the file system mounts, and says that what leads to the log is damaged (EUCLEAN, EBADMSG)",
        "powercut minimize names the write that is missing",
    )
    SLOT_DAMAGED = (
        "slot-damaged",
        Side.FINDING,
        "a part of the log cannot be read, although the disk answers (EIO, EUCLEAN, EBADMSG, "
        "EISDIR)",
        "powercut minimize names the write that is missing",
    )
    SLOT_UNREAD = (
        "slot-unread",
        Side.TROUBLE,
        "a part of the log was not read, for a reason that is not the disk's (ENOMEM, EINTR, ...)",
        "give the guest more memory (machine.memory); repeat the trial",
    )
    READER_NOT_STARTED = (
        "reader-not-started",
        Side.TROUBLE,
        "the log reader did not start (fork, execv)",
        "give the guest more memory (machine.memory); powercut doctor looks for the reader",
    )
    READER_KILLED = (
        "reader-killed",
        Side.TROUBLE,
        "a signal ended the log reader; SIGKILL is how a kernel without memory does it",
        "give the guest more memory (machine.memory)",
    )
    READER_NO_MEMORY = (
        "reader-no-memory",
        Side.TROUBLE,
        "the log reader had no memory (ENOMEM)",
        "give the guest more memory (machine.memory)",
    )
    READER_FAILED = (
        "reader-failed",
        Side.TROUBLE,
        "the log reader did not come to its end",
        "look at the guest's console; the message names the call",
    )
    HOST_READER_FAILED = (
        "host-reader-failed",
        Side.TROUBLE,
        "the log reader on this host did not come to its end, or this host could not read the "
        "image that it made",
        "check free memory and space where TMPDIR points to",
    )
    # The system as a whole
    SYSTEM_LOST = (
        "system-lost",
        Side.TROUBLE,
        "the guest, its hypervisor or the channel to it went before recovery had ended",
        "look at the guest's console: a kernel that panics is worth a look of its own",
    )
    SYSTEM_DIED = (
        "system-died",
        Side.TROUBLE,
        "the kernel panicked or hung on this state, and so did a fresh one: whether for want of "
        "memory or because of the disk is not known",
        "powercut explore --engine guest asks the recorded kernel; a panic is worth a report",
    )
    DEADLINE = (
        "deadline",
        Side.TROUBLE,
        "recovery did not end in time",
        "raise `deadline`, or use a host with less load",
    )
    # Image formats
    IMAGE_REFUSED = (
        "image-refused",
        Side.FINDING,
        "QEMU does not open the image, twice, and opens the image of before the run in between",
        "powercut minimize names the write that is missing",
    )

    def __init__(self, label: str, side: Side, reason: str, remedy: str) -> None:
        self.label = label
        self.side = side
        self.reason = reason
        self.remedy = remedy

    @property
    def is_finding(self) -> bool:
        """Whether the disk's content is at fault."""
        return self.side is Side.FINDING

    @staticmethod
    def labelled(label: str) -> Failure:
        """The member with this name in files.  Raises ValueError if there is none."""
        for member in Failure:
            if member.label == label:
                return member
        raise ValueError(f"no way to fail is called {label!r}")


class GuestFault(enum.IntEnum):
    """What failed in the guest: `lsn` of an ERROR message; enum pc_fault of wire.h."""

    CALL = 0
    MOUNT = 1
    MODULE = 2
    DEVICE = 3
    START = 4
    SIGNAL = 5


DAMAGED: Final = frozenset({errno.EUCLEAN, errno.EBADMSG})
"""What only a file system says: EFSCORRUPTED and EFSBADCRC of XFS, ext4 and btrfs."""

_MOUNT: Final = {
    errno.ENOMEM: Failure.MOUNT_NO_MEMORY,
    errno.ENODEV: Failure.MOUNT_UNSUPPORTED,
    errno.ENOSYS: Failure.MOUNT_UNSUPPORTED,
    errno.EBUSY: Failure.MOUNT_BUSY,
    errno.EINTR: Failure.MOUNT_INTERRUPTED,
    errno.EAGAIN: Failure.MOUNT_INTERRUPTED,
    errno.EPERM: Failure.MOUNT_FORBIDDEN,
    errno.EACCES: Failure.MOUNT_FORBIDDEN,
    errno.EROFS: Failure.MOUNT_FORBIDDEN,
    errno.ENOTBLK: Failure.DEVICE_MISSING,
    errno.ENXIO: Failure.DEVICE_MISSING,
    # What the block layer makes of a disk that fails (blk_errors[] of block/blk-core.c).
    errno.ETIMEDOUT: Failure.DISK_FAILED,
    errno.ENOLINK: Failure.DISK_FAILED,
    errno.EREMOTEIO: Failure.DISK_FAILED,
    errno.EBADE: Failure.DISK_FAILED,
    errno.ENODATA: Failure.DISK_FAILED,
    errno.EILSEQ: Failure.DISK_FAILED,
}

AMBIGUOUS: Final = frozenset(
    {
        errno.EINVAL,  # no such file system there; or an option that the kernel does not know
        errno.EIO,
        errno.ENOENT,  # btrfs: a root is missing; log replay
        errno.EEXIST,  # btrfs: log replay
        errno.ENOSPC,
        errno.ESTALE,
        errno.EOVERFLOW,
        errno.EFBIG,
        errno.ERANGE,
        errno.EOPNOTSUPP,
        errno.EMLINK,
    }
)
"""What a damaged file system says, and others say as well."""

_SLOT: Final = DAMAGED | {errno.EIO, errno.EISDIR, errno.ENOENT, errno.ELOOP, errno.ESTALE}


def failure_of_mount(error: int, *, proved: bool, disk_reads: bool = True) -> Failure:
    """What it means that mount(2) failed with `error`, an errno.

    `proved`: the same kernel has mounted this kind of file system with the same options.
    `disk_reads`: the disk could be read to its end after that.
    """
    if error in DAMAGED:
        return Failure.MOUNT_DAMAGED
    if error not in AMBIGUOUS:
        return _MOUNT.get(error, Failure.MOUNT_UNKNOWN)
    if not disk_reads:
        return Failure.DISK_FAILED
    return Failure.MOUNT_REFUSED if proved else Failure.MOUNT_UNPROVED


_LAYER: Final = DAMAGED | AMBIGUOUS | {errno.EILSEQ, errno.ENODATA, errno.ENXIO}


def failure_of_layer(error: int) -> Failure:
    """What it means that a layer was not activated with `error`, an errno, on a disk in memory.

    LAYER_REFUSED presumes that the same kernel has activated it before.
    """
    if error in _LAYER:
        return Failure.LAYER_REFUSED
    return _MOUNT.get(error, Failure.MOUNT_UNKNOWN)


def failure_of_reader(fault: GuestFault, error: int) -> Failure:
    """What it means that the log reader failed; `error` is the errno that it named, or 0."""
    if fault is GuestFault.START:
        return Failure.READER_NOT_STARTED
    if fault is GuestFault.SIGNAL:
        return Failure.READER_KILLED
    if error in DAMAGED:
        return Failure.LOG_DAMAGED
    return Failure.READER_NO_MEMORY if error == errno.ENOMEM else Failure.READER_FAILED


def failure_of_slot(error: int) -> Failure:
    """What it means that a slot of the log could not be read; `error` is an errno."""
    return Failure.SLOT_DAMAGED if error in _SLOT else Failure.SLOT_UNREAD


def failure_of_step(fault: GuestFault) -> Failure:
    """What it means that a step failed that is neither mount(2) nor the reader."""
    known = {GuestFault.MODULE: Failure.MODULE_FAILED, GuestFault.DEVICE: Failure.DEVICE_MISSING}
    return known.get(fault, Failure.STEP_FAILED)
