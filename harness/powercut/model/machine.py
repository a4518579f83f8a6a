# SPDX-License-Identifier: Apache-2.0
"""The words for a machine's settings, shared by scenarios and by what builds machines."""

from __future__ import annotations

import enum


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


class Bus(enum.Enum):
    """How the guest reaches its disk."""

    VIRTIO_BLK = "virtio-blk"


class Accelerator(enum.Enum):
    """What runs the guest's instructions."""

    KVM = "kvm"
    TCG = "tcg"
