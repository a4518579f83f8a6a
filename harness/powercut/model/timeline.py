# SPDX-License-Identifier: Apache-2.0
"""Everything that happened at the captured disk, on one clock."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from powercut.model.contract import CutPolicy, DeviceContract, Honour
from powercut.model.units import BEGINNING, NEVER, Instant

if TYPE_CHECKING:  # what tells of a verdict needs no arrays, and numpy takes long to import
    import numpy as np
    import numpy.typing as npt


class RequestKind(enum.IntEnum):
    """What a request asks for.  The numbers are those of the disk log."""

    WRITE = 1
    ZERO = 2
    DISCARD = 3
    FLUSH = 4


@dataclass(frozen=True)
class Requests:
    """All requests of a recording, one row per request, in submission order.

    Every array has one element per request.  Offsets and lengths are bytes.
    `completed_ns` is `NEVER` for a request that was in flight at the end, and for
    one that failed.  `data_offset` is the place of a write's payload in
    `Timeline.data`, -1 for what carries none.  A flush covers the writes that lie in its
    bytes, and with a length of 0 all.  `ignored` marks the flushes, and the writes with FUA, that
    one disk of several ignored; None: no disk did.
    """

    kind: npt.NDArray[np.uint8]
    fua: npt.NDArray[np.bool_]
    offset: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    submitted_ns: npt.NDArray[np.int64]
    completed_ns: npt.NDArray[np.int64]
    data_offset: npt.NDArray[np.int64]
    failed: npt.NDArray[np.bool_]
    ignored: npt.NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def is_write(self) -> npt.NDArray[np.bool_]:
        """True for the requests that change the medium: writes, write-zeroes, discards."""
        import numpy as np  # noqa: PLC0415

        return np.asarray(self.kind != RequestKind.FLUSH)

    @property
    def believed(self) -> npt.NDArray[np.bool_]:
        """True for the requests that did what the contract says of their like."""
        import numpy as np  # noqa: PLC0415

        if self.ignored is None:
            return np.ones(len(self), dtype=np.bool_)
        return np.asarray(~self.ignored)


@dataclass(frozen=True)
class SurvivingRange:
    """Bytes of a volatile write that are on the medium although nothing required it.

    Either a full cache destaged them (`at` is when), or the cut left them.
    """

    request: int
    offset: int
    length: int
    at: Instant


@dataclass(frozen=True)
class DiskCut:
    """The instant at which the captured disk lost its power."""

    at: Instant
    policy: CutPolicy
    seed: int


@dataclass(frozen=True)
class InFlight:
    """What a disk had taken and not completed when its power went, in numbers of requests.

    `survived` counts those of which the cut left something on the medium.
    """

    writes: int
    zeroes: int
    discards: int
    flushes: int
    survived: int


@dataclass(frozen=True)
class DiskRange:
    """One of several disks that were captured as one: its bytes from `begin` to `end` - 1.

    `holds` is what lies on it: `first`, `xfs-log`, `xfs-realtime`, `folder` or `stripe`.
    """

    name: str
    begin: int
    end: int
    holds: str


@dataclass(frozen=True)
class Timeline:
    """The captured disk's side of a recording.

    `data` holds the payloads of all writes (often a memory map of a file).  `cut`
    is None if the power did not fail below this disk.  `complete` is False if the
    log was not closed in order: its tail is missing.  `start_ns` is when recording began.
    `disks` are those that were captured as one; none if it is one.
    """

    disk_size: int
    contract: DeviceContract
    requests: Requests
    data: npt.NDArray[np.uint8]
    destaged: tuple[SurvivingRange, ...] = ()
    survived: tuple[SurvivingRange, ...] = ()
    cut: DiskCut | None = None
    marks: tuple[tuple[Instant, str], ...] = ()
    complete: bool = True
    start_ns: Instant = BEGINNING
    disks: tuple[DiskRange, ...] = ()

    @property
    def in_flight(self) -> InFlight | None:
        """What the cut interrupted; None if the recording has no cut, or not all before it."""
        if self.cut is None or not self.complete:
            return None
        open_at_cut = (self.requests.completed_ns == NEVER) & ~self.requests.failed
        kinds = self.requests.kind[open_at_cut]
        return InFlight(
            writes=int((kinds == RequestKind.WRITE).sum()),
            zeroes=int((kinds == RequestKind.ZERO).sum()),
            discards=int((kinds == RequestKind.DISCARD).sum()),
            flushes=int((kinds == RequestKind.FLUSH).sum()),
            survived=len({s.request for s in self.survived if open_at_cut[s.request]}),
        )

    def ignored(self, request: int) -> bool:
        """Whether the disk ignored this flush, or the FUA of this write."""
        flush = self.requests.kind[request] == RequestKind.FLUSH
        kept = self.contract.flush if flush else self.contract.fua
        asks = bool(flush or self.requests.fua[request])
        return asks and (kept is Honour.IGNORED or not self.requests.believed[request])

    def disk_name(self, request: int) -> str:
        """The name of the disk that a request is for; empty if there is one alone."""
        at = int(self.requests.offset[request])
        return next((disk.name for disk in self.disks if disk.begin <= at < disk.end), "")

    def payload(self, request: int) -> npt.NDArray[np.uint8]:
        """The bytes that write number `request` carries."""
        start = int(self.requests.data_offset[request])
        if start < 0:
            raise ValueError(f"request {request} carries no payload")
        return self.data[start : start + int(self.requests.length[request])]
