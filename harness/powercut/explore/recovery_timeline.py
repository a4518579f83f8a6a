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

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from powercut.model.contract import DeviceContract, Honour
from powercut.model.errors import HostError
from powercut.model.machine import Aio, Bus
from powercut.model.timeline import RequestKind, Requests, Timeline
from powercut.model.units import Instant
from powercut.recover.port import AFTER_MARK
from powercut.scenario.settings import GuestWriteCache, MachineSettings

_STEP: Final = 10  # instants from one entry to the next; they are no times

_MAGIC: Final = 0x6A736677736872
_SUPERBLOCK: Final = struct.Struct("<QQQI")  # magic, version, entries, bytes of a sector
_ENTRY: Final = struct.Struct("<QQQQ")  # sector, sectors, flags, length of a mark's name
_FLUSH, _DISCARD, _MARK, _METADATA = 1, 4, 8, 16
_KNOWN: Final = _FLUSH | _DISCARD | _METADATA  # with FUA (2) the order would not be known
_END: Final = "dm-log-writes-end"


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


def timeline_of_record(raw: bytes, *, disk_size: int, durability: Durability) -> Timeline:
    """The timeline of a recovery on record, a log of the kernel's dm-log-writes.

    Raises HostError if the record is not whole, or its order is not known.
    """
    entries = list(_entries(raw, disk_size))
    if not entries or entries[-1].name != _END:
        raise _not_as_it_should_be("it does not end as one that was closed")
    rows = [entry for entry in entries if entry.name is None]
    at = np.array([(entry.number + 1) * _STEP for entry in rows], dtype=np.int64)
    kind = np.array([entry.kind for entry in rows], dtype=np.uint8)
    requests = Requests(
        kind=kind,
        fua=(kind != RequestKind.FLUSH) & durability.through,
        offset=np.array([entry.offset for entry in rows], dtype=np.int64),
        length=np.array([entry.length for entry in rows], dtype=np.int64),
        submitted_ns=at,
        completed_ns=at + _STEP // 2,
        data_offset=np.array([entry.data_at for entry in rows], dtype=np.int64),
        failed=np.zeros(len(rows), dtype=np.bool_),
    )
    marks = (entry for entry in entries if entry.name is not None)
    return Timeline(
        disk_size=disk_size,
        contract=durability.contract,
        requests=requests,
        data=np.frombuffer(raw, np.uint8),
        marks=tuple((Instant((one.number + 1) * _STEP), one.name or "") for one in marks),
    )


@dataclass(frozen=True)
class _Entry:
    """One entry of such a log; `name` is that of a mark, else None."""

    number: int
    kind: RequestKind = RequestKind.FLUSH
    offset: int = 0
    length: int = 0
    data_at: int = -1
    name: str | None = None


def _entries(raw: bytes, disk_size: int) -> Iterator[_Entry]:
    """The format: docs/formats/dm-log-writes.md.  Raises HostError."""
    if len(raw) < _SUPERBLOCK.size:
        raise _not_as_it_should_be("it is cut off")
    magic, version, count, sector_size = _SUPERBLOCK.unpack_from(raw)
    if (magic, version) != (_MAGIC, 1) or sector_size not in (512, 4096):
        raise _not_as_it_should_be("it is no log of dm-log-writes")
    place = sector_size
    for number in range(count):
        if place + sector_size > len(raw):
            raise _not_as_it_should_be(f"entry {number} is cut off")
        sector, sectors, flags, named = _ENTRY.unpack_from(raw, place)
        data_at = place + sector_size
        offset, length = sector * sector_size, sectors * sector_size
        place = data_at + (0 if flags & _DISCARD else length)
        if flags == _MARK and not sectors and named <= sector_size - _ENTRY.size:
            begin = data_at - sector_size + _ENTRY.size
            name = raw[begin : begin + named].rstrip(b"\0").decode("utf-8", "backslashreplace")
            yield _Entry(number, name=name)
        elif flags & ~_KNOWN or offset + length > disk_size or place > len(raw):
            raise _not_as_it_should_be(f"entry {number} is none (flags {flags:#x})")
        elif not sectors:
            if not flags & _FLUSH:
                raise _not_as_it_should_be(f"entry {number} does nothing (flags {flags:#x})")
            yield _Entry(number)
        elif flags & _DISCARD:
            yield _Entry(number, RequestKind.DISCARD, offset, length)
        else:
            yield _Entry(number, RequestKind.WRITE, offset, length, data_at)


def _not_as_it_should_be(why: str) -> HostError:
    return HostError(f"the recovery was not recorded as it should be: {why}")


def instant_after(timeline: Timeline) -> int | None:
    """The instant at which the workload that went on had ended; None if none did."""
    return next((int(at) for at, name in timeline.marks if name == AFTER_MARK), None)
