# SPDX-License-Identifier: Apache-2.0
"""What a recovery did to its disk, as a timeline whose crash states are legal.

There are two sources.

1. A recovery on the capture disk, the live one of a trial or one of the `guest` engine: its log is
   a disk log like any other.
2. A recovery that the `uml` engine has put on record (guests/uml/recorder.c): a log of
   dm-log-writes.  No entry of it has FUA, so that its entries stand in the order of their
   completion, but for one thing: the writes that completed while a flush was on its way
   stand behind it.  Each entry becomes a request that is submitted when the one before has
   completed.

   Every state of that timeline was legal: writes that were completed are called issued, no
   others are; and what a flush is said to cover had completed before it was submitted.  States
   that keep a write which was in flight only are missing until it has completed.

What of that is durable depends on the disk that the system was recorded on, and on what the
guest was told about it:

- it writes through (the cache is off, and the hypervisor sends each write with FUA): a write is
  durable when it completes, if the disk honours FUA; on a file, where FUA is a flush behind the
  write, if it honours flushes;
- flushes do not reach it (cache=unsafe; an NVDIMM, which has none; or only the guest's kernel
  believes that it writes through): nothing that recovery writes is ever durable;
- else a flush does what the disk's contract says of flushes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from powercut.disk.logwrites.format import Dialect, Flag
from powercut.disk.logwrites.read import read_log
from powercut.model.contract import DeviceContract, Honour
from powercut.model.errors import HostError
from powercut.model.machine import Aio, Bus
from powercut.model.timeline import RequestKind, Requests, Timeline
from powercut.model.units import Instant
from powercut.recover.port import AFTER_MARK
from powercut.scenario.settings import GuestWriteCache, MachineSettings

_STEP: Final = 10  # instants from one entry to the next; they are no times


@dataclass(frozen=True)
class Durability:
    """What makes a recovery's writes durable: the rules at the head of this file.

    With `through` each write counts as one with FUA.
    """

    contract: DeviceContract
    through: bool


def durability_during_recovery(recorded: Timeline, machine: MachineSettings) -> Durability:
    """What it is on the disk of `recorded`, under its contract."""
    told, cache = machine.guest_write_cache, machine.host_cache
    through = not cache.write_cache or told is GuestWriteCache.SWITCHED_OFF
    if cache.no_flush:  # then whether FUA gets through can be seen
        through = through and bool(recorded.requests.fua.any())
    deaf = (
        cache.no_flush
        or through
        or told is GuestWriteCache.WRITE_THROUGH
        or machine.bus is Bus.NVDIMM
    )
    contract = recorded.contract
    if through and machine.aio is not Aio.NBD:
        contract = replace(contract, fua=contract.flush)
    if deaf:
        contract = replace(contract, flush=Honour.IGNORED)
    if told is GuestWriteCache.WRITE_THROUGH and not through:
        contract = replace(contract, fua=Honour.IGNORED)
    return Durability(contract, through)


def timeline_of_record(
    raw: bytes, folder: Path, *, disk_size: int, durability: Durability
) -> Timeline:
    """The timeline of a recovery on record; `folder` is for its log while it is read.

    Raises HostError if the record is not whole, or its order is not known.
    """
    path = folder / "recovery.log"
    path.write_bytes(raw)
    try:
        log = read_log(path, dialect=Dialect.KERNEL, disk_size=disk_size)
    finally:
        path.unlink()  # it is mapped: the next log must not be written into this one
    if not log.complete or log.doubts or bool(log.has(Flag.FUA).any()):
        why = "; ".join(log.doubts) or "it is not whole, or has writes with FUA"
        raise HostError(f"the recovery was not recorded as it should be: {why}")
    flush, write = log.has(Flag.FLUSH) & ~log.has_data, log.has_data
    row = np.flatnonzero(flush | write)
    kind = np.full(len(row), RequestKind.WRITE, dtype=np.uint8)
    kind[flush[row]] = RequestKind.FLUSH
    kind[log.has(Flag.DISCARD)[row]] = RequestKind.DISCARD
    plain = kind == RequestKind.WRITE
    at = (row.astype(np.int64) + 1) * _STEP
    requests = Requests(
        kind=kind,
        fua=(kind != RequestKind.FLUSH) & durability.through,
        offset=np.where(kind == RequestKind.FLUSH, 0, log.offset[row]).astype(np.int64),
        length=np.where(kind == RequestKind.FLUSH, 0, log.length[row]).astype(np.int64),
        submitted_ns=at,
        completed_ns=at + _STEP // 2,
        data_offset=np.where(plain, log.position[row] + log.sector_size, -1).astype(np.int64),
        failed=np.zeros(len(row), dtype=np.bool_),
    )
    marks = tuple((Instant((entry + 1) * _STEP), name) for entry, name in sorted(log.names.items()))
    return Timeline(
        disk_size=disk_size,
        contract=durability.contract,
        requests=requests,
        data=log.data,
        marks=marks,
    )


def instant_after(timeline: Timeline) -> int | None:
    """The instant at which the workload that went on had ended; None if none did."""
    return next((int(at) for at, name in timeline.marks if name == AFTER_MARK), None)
