# SPDX-License-Identifier: Apache-2.0
"""Where durability that was asked for goes missing on its way to the disk.  Pure.

A commit's promise takes one of two forms on the wire: a flush, or FUA on the write itself.
Layers may exchange one for the other: a disk that knows no FUA gets a flush for it, write-through
is FUA on every write, and flushes that wait at the same time may become one.  So layers are
not compared request by request.  What is compared:

1. A layer that was asked for promises and passes none on, of either form, holds them back.
2. A layer that was asked for FUA, passes no FUA on, and not one flush more than it was asked
   for, replaced it by nothing.
3. A committer waits for the commit before; so each commit needs a promise of its own, and a
   layer that passes on fewer than there were commits holds some back.

None of this is held against anybody unless, when all commits had been acknowledged and every
layer was quiet, writes were left that the disk saw neither FUA nor a later flush for, or fewer
bytes had reached it than were committed.  A hypervisor may leave a flush out where nothing was
written since the last (bdrv_co_flush of QEMU), and a disk behind write-through needs none.  A
guest that was told by its machine that the disk has no volatile cache rightly sends no flushes;
then the machine has to make each write durable.  At the end of the chain the disk's contract
says what it made of what it was sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from powercut.model.units import count
from powercut_extras.certify.measurement import BioCounts, RequestCounts

WORKLOAD: Final = "workload"
FILE_SYSTEM: Final = "file system"
GUEST: Final = "guest block layer"
HYPERVISOR: Final = "hypervisor"
DISK: Final = "disk"


@dataclass(frozen=True)
class Promises:
    """Requests for durability that pass from one layer to the next."""

    flushes: int
    fua_writes: int

    @property
    def total(self) -> int:
        """Promises of either form."""
        return self.flushes + self.fua_writes

    def __str__(self) -> str:
        return f"{count(self.flushes, 'flush')} and {count(self.fua_writes, 'FUA write')}"


@dataclass(frozen=True)
class Layers:
    """What each layer was asked for, for the same commits; see `WireAccount`.

    `syncs` is how many commits asked for durability.  `write_through` says that the guest's
    kernel takes the disk for one without volatile cache, `told` that its machine said so.
    """

    commits: int
    syncs: int
    committed_bytes: int
    asked: BioCounts | None
    guest: RequestCounts | None
    hypervisor: RequestCounts | None
    disk: RequestCounts
    uncovered: int
    not_durable: int
    write_through: bool
    told: bool


def flush_ends_at(layers: Layers) -> tuple[str, str]:
    """The layer at which promises end, and how that shows; both empty if nothing is missing.

    A second text without a first says why what looks like a loss is none of a layer's.
    """
    if layers.syncs < layers.commits:
        asks = f"in {layers.syncs:,}" if layers.syncs else "in none"
        return WORKLOAD, f"the workload asks for durability {asks} of {layers.commits:,} commits"
    short = layers.disk.written_bytes < layers.committed_bytes
    if layers.uncovered or short:
        found = _first_that_holds_back(layers)
        if found:
            return found
    if layers.not_durable > layers.uncovered:
        return DISK, (
            f"{_sent(layers.disk)} reached the disk, and by its contract"
            f" {count(layers.not_durable, 'write')} were not durable all the same"
        )
    passed = "no layer passes on less than it was asked for"
    if short:
        return "", f"{passed}; yet {layers.disk.written_bytes:,} bytes reached the disk"
    if layers.uncovered:
        return "", f"{passed}; at the end, {count(layers.uncovered, 'write')} had no flush yet"
    return "", ""


def _first_that_holds_back(layers: Layers) -> tuple[str, str] | None:
    """The first layer above the disk that holds something back."""
    syncs, asked = layers.syncs, None
    if layers.asked is not None:
        asked = Promises(layers.asked.flushes, layers.asked.fua_writes)
        if asked.total < syncs:
            return FILE_SYSTEM, f"for {syncs} commits it asked for {asked}"
    issued, disk = _issued(layers), _sent(layers.disk)
    if layers.write_through and layers.told:
        # The guest is right to pass nothing on: the machine promised that each write is durable.
        return HYPERVISOR, (
            f"the guest was told that the disk writes through, and so sent {issued};"
            f" with {count(layers.disk.writes, 'write')}, {disk} reached the disk"
        )
    if found := _held_in_guest(layers, asked, issued):
        return found
    if _holds_back(issued, disk, syncs):
        return HYPERVISOR, f"of {issued} that the guest issued, {disk} reached the disk"
    return None


def _held_in_guest(
    layers: Layers, asked: Promises | None, issued: Promises
) -> tuple[str, str] | None:
    """What the guest's block layer holds back of what it was asked for."""
    believes = "it takes the disk for one without volatile cache"
    if asked is None:
        if issued.total >= layers.syncs:
            return None
        if layers.write_through:
            return GUEST, f"for {layers.syncs} commits it issued {issued}: {believes}"
        return FILE_SYSTEM, f"for {layers.syncs} commits the guest issued {issued}"
    if not _holds_back(asked, issued, layers.syncs):
        return None
    return GUEST, f"of {asked} it issued {issued}" + f": {believes}" * layers.write_through


def _issued(layers: Layers) -> Promises:
    """What the guest sent; without a trace of it, what is known from either side of it.

    Memory, for one, has no queue of requests, neither in the guest nor in the hypervisor.
    """
    counted = layers.guest or layers.hypervisor
    if counted is not None:
        return _sent(counted)
    asked = layers.asked
    return Promises(asked.flushes, asked.fua_writes) if asked else _sent(layers.disk)


def _sent(counts: RequestCounts) -> Promises:
    return Promises(counts.flushes, counts.fua_writes or 0)


def _holds_back(got: Promises, passed: Promises, syncs: int) -> bool:
    """Whether a layer passes less on than it got; see the rules above."""
    none = got.total > 0 and passed.total == 0
    fua_dropped = got.fua_writes > 0 and not passed.fua_writes and passed.flushes <= got.flushes
    return none or fua_dropped or passed.total < min(got.total, syncs)
