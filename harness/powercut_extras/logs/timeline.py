# SPDX-License-Identifier: Apache-2.0
"""Makes a timeline of a dm-log-writes log without claiming what the log does not prove.

A timeline has an instant for each submission and each completion; a log has one order
of entries.  What that order proves:

Kernel.  An entry is logged at an instant that really was: a FUA write at its completion,
a mark when it was sent, a flush F at its completion, and right before F, as one block,
the plain writes that had completed before F was submitted.  Therefore

 K1. what is durable at a mark is exactly what stands before it in the log: plain writes
     whose flush stands before it, and FUA writes (given that the device completes
     flushes in the order of their submission, as request-based devices of Linux do);
 K2. at the instant before F completes, every write of F's block had been submitted,
     none of them (by F) was durable, and no mark lies between them and F;
 K3. when a write was submitted is not in the log.  It completed after the flush before
     its block was submitted; it may have been in flight long before;
 K4. a plain write that is followed by no flush (the target logs those when it is
     removed) is never durable.

QEMU.  An entry is logged when the request has completed at the disk, before the guest
is told.  Flushes of a node do not overlap.  Therefore

 Q1. a flush covers every write that stands before the *previous* flush: that one had
     completed before this one was submitted;
 Q2. a write between two flushes may have completed before the second was submitted, or
     while it ran, without being covered.  The log is the same in both cases;
 Q3. a flush that the superblock does not count had not been reported to the guest (the
     superblock is rewritten first): nothing was promised because of it, and it may be a
     leftover of an earlier use of the file.  It counts for nothing;
 Q4. a log that was closed in order was flushed once more, unless nothing had completed
     since the last flush was submitted: the last flush covers everything before it;
 Q5. FUA is not in the log.  QEMU makes of it a write and a flush, but does not send the
     flush to this node if no other write has completed since the last one: then a write
     that was durable when it completed looks like any other.

So what was durable lies between two bounds, and there are two readings of a log:

- CAUTIOUS claims the least: durable only by K1, Q1, Q3, Q4, and each write submitted
  as early as its epoch began.  It has every state that was legal in the `epoch` model.
  A conclusion of SAFE may rest on it alone.
- CERTAIN claims the most: a flush covers every write before it, each write in a log of
  QEMU had FUA unless the caller knows better (Q5), and each write is submitted right
  before it completes.  Each of its states was legal for certain.  A conclusion of LOSSY
  may rest on it alone.

What is lost under CAUTIOUS and not under CERTAIN is INCONCLUSIVE.  For the kernel's
logs, the two differ in which writes were on their way, not in what was durable, so
that ack and durability are decided exactly.

Crash models: `epoch` is what the format can carry, `prefix` a part of it.  `exact` is
not meaningful for an imported log: it needs to know which writes of *later* epochs
were in flight, and no log says so (K3).  Neither dialect records that a request
failed: both log a write or flush that returned an error like one that did not.  A log
of a disk that had errors proves nothing.

Instants are made up: they keep the order of the log and say nothing about time.
Overlapping writes keep the log's order (see logwrites_order.py).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.model.contract import DeviceContract
from powercut.model.errors import DamagedRecording
from powercut.model.history import RECORDS_MAX, History
from powercut.model.timeline import RequestKind, Requests, Timeline
from powercut.model.units import NEVER, SECTOR, Instant
from powercut_extras.logs.format import END_MARK, Dialect, Flag, LogWrites
from powercut_extras.logs.order import flushes_before, overlaps

ANY_LSN: Final = 1 << 40
"""The highest LSN that a record can have: attempted, where a log says nothing of attempts."""

_CLAIM = re.compile(r"(ack|attempt) (\d{1,13})")
_FACT = re.compile(r"fact ([^=]+)=(.*)", re.DOTALL)

# What happens within one entry's place in the order, in this sequence.
_EARLY_FLUSH, _EARLY_WRITE, _SUBMIT_FLUSH, _FLUSHED, _SUBMIT_WRITE, _WRITTEN, _MARK = range(7)
_PHASES: Final = 8


class Reading(enum.Enum):
    """Which of the two bounds a timeline is; see the head of this file."""

    CAUTIOUS = "cautious"
    CERTAIN = "certain"


@dataclass(frozen=True)
class _Order:
    """Instants for (entry, phase) pairs, with room for an epoch's early submissions."""

    shift: int

    def at(
        self, entry: npt.NDArray[np.int64], phase: npt.NDArray[np.int64] | int
    ) -> npt.NDArray[np.int64]:
        return np.asarray((entry * _PHASES + phase + 1) << self.shift, dtype=np.int64)


def to_timeline(log: LogWrites, *, reading: Reading, atomic_unit: int = SECTOR) -> Timeline:
    """The timeline that `log` supports under `reading`.

    `atomic_unit` (bytes) is what the disk is trusted not to tear: the log says nothing
    about it.  An entry that is a flush with data becomes two requests, the flush first.
    Payloads stay in the mapped log.

    Raises DamagedRecording if the entries stand in an order that the log's dialect
    cannot produce.
    """
    if log.dialect is Dialect.KERNEL:
        _refuse_unflushed(log)
    count = len(log)
    epoch = flushes_before(log)
    first = _epoch_starts(log)
    order = _Order(shift=max(int((np.arange(count) - first).max(initial=0)).bit_length(), 1))
    flush = np.flatnonzero(log.has(Flag.FLUSH))
    write = np.flatnonzero(log.has_data)
    cautious = reading is Reading.CAUTIOUS

    flush_submitted = order.at(flush, _SUBMIT_FLUSH)
    flush_completed = order.at(flush, _FLUSHED)
    write_submitted = order.at(write, _SUBMIT_WRITE)
    write_completed = order.at(write, _WRITTEN)
    if cautious and log.dialect is Dialect.QEMU:
        late = flush[-1:] if log.closed and log.complete else flush[:0]
        early = ~np.isin(flush, late)
        flush_submitted[early] = order.at(first[flush[early]], _EARLY_FLUSH)
        flush_completed[flush >= log.counted] = NEVER
    if cautious:
        alone = ~overlaps(epoch[write], log.sector[write], log.nr_sectors[write])
        alone &= ~log.has(Flag.FLUSH)[write]
        early_writes = write[alone]
        start = first[early_writes]
        write_submitted[alone] = order.at(start, _EARLY_WRITE) + (early_writes - start)
        # A flush whose own data are volatile enters the log when both are done; a later
        # flush in the log may have been submitted before that.
        unproven = log.has(Flag.FLUSH)[write] & ~log.has(Flag.FUA)[write]
        write_completed[unproven] = NEVER

    fua = log.has(Flag.FUA)[write]
    if not cautious and log.dialect is Dialect.QEMU and not log.no_fua:
        fua = ~log.has(Flag.DISCARD)[write]
    requests = _requests(
        log,
        flush,
        write,
        fua,
        submitted=np.concatenate([flush_submitted, write_submitted]),
        completed=np.concatenate([flush_completed, write_completed]),
    )
    marks = np.array(sorted(log.names), np.int64)
    instants = order.at(marks, _MARK)
    return Timeline(
        disk_size=log.disk_size,
        contract=DeviceContract(atomic_unit=atomic_unit),
        requests=requests,
        data=log.data,
        marks=tuple(
            (Instant(int(at)), log.names[int(entry)])
            for at, entry in zip(instants, marks, strict=True)
        ),
        complete=log.complete,
    )


def _epoch_starts(log: LogWrites) -> npt.NDArray[np.int64]:
    """For each entry, the number of the entry that follows the flush before it; 0 if none."""
    count = len(log)
    after = np.where(log.has(Flag.FLUSH), np.arange(1, count + 1), 0)
    starts = np.zeros(count, np.int64)
    starts[1:] = np.maximum.accumulate(after)[:-1]
    return starts


def _refuse_unflushed(log: LogWrites) -> None:
    """Refuses a kernel log in which something else than its flush follows a plain write.

    The kernel's target puts a flush's block and the flush into the log in one step, so a
    plain write is followed by another one, or by a flush, or by nothing but the last mark.
    """
    count = len(log)
    plain = ~(log.has(Flag.FLUSH) | log.has(Flag.FUA) | log.has(Flag.MARK))
    following = np.where(plain, count, np.arange(count))
    following = np.minimum.accumulate(following[::-1])[::-1]
    flush = np.append(log.has(Flag.FLUSH), True)
    last_mark = count - 1 if log.complete else count
    stray = plain & ~flush[following] & (following != last_mark)
    if stray.any():
        entry = int(np.argmax(stray))
        raise DamagedRecording(
            f"entry {entry:,} at byte {int(log.position[entry]):,} is a write that entry "
            f"{int(following[entry]):,} follows without a flush: the kernel's target never "
            "logs in this order",
            hint="if QEMU's blklogwrites wrote this log, say that the dialect is qemu; "
            "otherwise it is damaged, or its writer keeps another order",
        )


def _requests(
    log: LogWrites,
    flush: npt.NDArray[np.int64],
    write: npt.NDArray[np.int64],
    fua: npt.NDArray[np.bool_],
    *,
    submitted: npt.NDArray[np.int64],
    completed: npt.NDArray[np.int64],
) -> Requests:
    """One row for each flush and each write, in submission order.

    The instants are those of all flushes, then of all writes.
    """
    discard = log.has(Flag.DISCARD)[write]
    none = np.zeros(len(flush), np.int64)
    order = np.argsort(submitted, kind="stable")
    kind = np.concatenate(
        [
            np.full(len(flush), RequestKind.FLUSH, np.uint8),
            np.where(discard, RequestKind.DISCARD, RequestKind.WRITE).astype(np.uint8),
        ]
    )
    data_offset = np.where(discard, -1, log.position[write] + log.sector_size)
    return Requests(
        kind=kind[order],
        fua=np.concatenate([none.astype(np.bool_), fua])[order],
        offset=np.concatenate([none, log.offset[write]])[order],
        length=np.concatenate([none, log.length[write]])[order],
        submitted_ns=submitted[order],
        completed_ns=completed[order],
        data_offset=np.concatenate([none - 1, data_offset])[order],
        failed=np.zeros(len(order), np.bool_),
    )


def is_claim(name: str) -> bool:
    """True for the name of a mark that belongs to a history."""
    return bool(_CLAIM.fullmatch(name) or _FACT.fullmatch(name))


def is_promise(name: str) -> bool:
    """True for the name of a mark that may say that something is durable."""
    claim = _CLAIM.fullmatch(name)
    return name != END_MARK and not _FACT.fullmatch(name) and not (claim and claim[1] == "attempt")


def history_from_marks(marks: Iterable[tuple[Instant, str]]) -> History:
    """The history that a workload told in marks.

    "ack N" promises every record up to LSN N, "attempt N" announces them, and
    "fact KEY=VALUE" is kept; other marks are not for us.  Without a single "attempt"
    every LSN counts as attempted from the start, so that no record is called an intruder.

    Raises DamagedRecording for a claim of more records than anybody writes.
    """
    claims: dict[str, list[tuple[int, int]]] = {"ack": [], "attempt": []}
    facts: dict[str, str] = {}
    for instant, name in marks:
        claim = _CLAIM.fullmatch(name)
        fact = _FACT.fullmatch(name)
        if claim and int(claim[2]) > RECORDS_MAX:
            raise DamagedRecording(
                f"the mark {name!r}: powercut keeps account of {RECORDS_MAX} records at most"
            )
        if claim:
            claims[claim[1]].append((int(claim[2]), int(instant)))
        elif fact:
            facts[fact[1]] = fact[2]
    if not claims["attempt"]:
        claims["attempt"] = [(ANY_LSN, 0)]
        facts["attempts"] = "unknown"
    ack = np.array(claims["ack"], np.int64).reshape(-1, 2)
    attempt = np.array(claims["attempt"], np.int64).reshape(-1, 2)
    return History(
        attempt_lsn=attempt[:, 0],
        attempt_ns=attempt[:, 1],
        ack_lsn=ack[:, 0],
        ack_ns=ack[:, 1],
        attempt_guest_ns=attempt[:, 1],
        ack_guest_ns=ack[:, 1],
        facts=facts,
        marked=True,
    )
