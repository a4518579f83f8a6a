# SPDX-License-Identifier: Apache-2.0
"""What a disk promises, and which of its promises it keeps."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Final

ATOMIC_UNIT: Final = 4096
"""Bytes, aligned, that disks with sectors of 4 KiB write whole or not at all; so does the disk of a
scenario that says nothing else.  Sources and exceptions: docs/crash-model.md, section 2."""


class Honour(enum.Enum):
    """Whether a disk does what a request for durability asks, or only says so."""

    HONOURED = "honoured"
    IGNORED = "ignored"


class CutKind(enum.Enum):
    """How much a cut takes away; each kind takes what the one before it takes, too."""

    GUEST_CRASH = "guest-crash"  # RAM of the guest
    VM_KILL = "vm-kill"  # and the hypervisor process
    POWER_LOSS = "power-loss"  # and the volatile caches below it


class CutPolicy(enum.Enum):
    """What a power loss leaves of the volatile cache on one particular disk."""

    DROP = "drop"
    KEEP = "keep"
    RANDOM = "random"
    PREFIX = "prefix"


@dataclass(frozen=True)
class DeviceContract:
    """How a disk treats the requests that it takes.

    `atomic_unit` is in bytes: a write tears only at multiples of it (1: anywhere).  The default
    is the least that a disk with sectors promises; that of scenarios is `ATOMIC_UNIT`.
    `cache_size` is in bytes, 0 for unlimited; a full cache destages its oldest
    writes.  Latencies are in nanoseconds and are added to each flush, and to each
    write with FUA.
    """

    volatile_cache: bool = True
    flush: Honour = Honour.HONOURED
    fua: Honour = Honour.HONOURED
    ordered: bool = False
    atomic_unit: int = 512
    cache_size: int = 0
    flush_latency_ns: int = 0
    fua_latency_ns: int = 0

    @property
    def honest(self) -> bool:
        """True if a flush or FUA that completed did what it says."""
        return not self.volatile_cache or (
            self.flush is Honour.HONOURED and self.fua is Honour.HONOURED
        )

    def lying(self) -> DeviceContract:
        """The same disk, but that it ignores flushes and FUA."""
        return replace(self, flush=Honour.IGNORED, fua=Honour.IGNORED)
