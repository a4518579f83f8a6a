# SPDX-License-Identifier: Apache-2.0
"""Writes a recording as a log of the kernel's dm-log-writes target.

The rule is the target's (Documentation/admin-guide/device-mapper/log-writes.rst):

 1. a FUA write is logged when it completes;
 2. any other write, write-zeroes or discard is held back when it completes;
 3. a flush, when it completes, first logs all held back writes that completed before it
    was submitted, in the order of their completion, and then itself;
 4. a mark is logged at once;
 5. at the end, what is still held back is logged without a flush, and then the mark
    "dm-log-writes-end".

So a replay of the log up to a flush gives the base image plus exactly what was
durable when that flush completed, the later completion on top.  Where a faithful copy
of the target would miss that, this differs:

 6. Of two flushes in flight at once, the target logs all held back writes with the one
    that was submitted first; here each flush logs what it covers.
 7. The target logs a FUA write ahead of an older held back write to the same place, and
    a replay leaves the older content; here the held back write loses those sectors.
 8. The target refuses write-zeroes; here they become writes of zeroes (holes in the
    file).  So do discards with FUA.
 9. replay-log skips discards above 128 MiB; here they are logged in pieces of that size,
    and so are writes.

Without a volatile cache every write is durable when it completes, and carries FUA.  A
disk that lies about flushes is exported as the stack above it saw it.  What never
completed, or failed, is not in the log.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt

from powercut.model.errors import HostError, UsageError
from powercut.model.history import History
from powercut.model.timeline import RequestKind, Timeline
from powercut.model.units import NEVER
from powercut_extras.logs.format import (
    END_MARK,
    ENTRY,
    MAGIC,
    SECTOR_SIZES,
    SUPERBLOCK,
    VERSION,
    Flag,
)
from powercut_extras.logs.order import overlaps
from powercut_extras.logs.timeline import is_claim

PIECE: Final = 128 << 20
"""Bytes of the longest entry: replay-log leaves out longer discards without a word."""


@dataclass(frozen=True)
class Exported:
    """What an export wrote: entries in all, bytes of the file, flushes and marks.

    `left_out` counts writes that never completed, or failed, and so are not in the log.
    """

    entries: int
    size: int
    flushes: int
    marks: int
    left_out: int


def write_log(
    timeline: Timeline, path: Path, *, sector_size: int = 512, history: History | None = None
) -> Exported:
    """Writes `timeline` to the new file `path`, with marks "attempt N" and "ack N" of `history`.

    `sector_size` is in bytes; every request must be aligned to it.  The superblock is
    written last: an unfinished export is not mistaken for a log.  Raises UsageError for
    what the format cannot hold, HostError if the file exists or cannot be written.
    """
    if sector_size not in SECTOR_SIZES:
        raise UsageError(
            f"a log cannot have sectors of {sector_size} bytes",
            hint="possible are " + ", ".join(map(str, SECTOR_SIZES)),
        )
    _refuse_unaligned(timeline, sector_size)
    marks = _marks(timeline, history, sector_size)
    try:
        with path.open("xb", buffering=1 << 20) as file:
            writer = _Writer(file, sector_size)
            _replay(timeline, marks, writer)
            writer.finish()
            left_out = timeline.requests.is_write & (timeline.requests.completed_ns == NEVER)
            return Exported(
                entries=writer.entries,
                size=writer.size,
                flushes=writer.flushes,
                marks=writer.marks,
                left_out=int(left_out.sum()),
            )
    except FileExistsError as error:
        raise HostError(f"{path} exists", hint="an export never overwrites a file") from error
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        raise HostError(
            f"cannot write {path}: {error.strerror}", hint="is there room for it?"
        ) from error


def _refuse_unaligned(timeline: Timeline, sector_size: int) -> None:
    requests = timeline.requests
    odd = requests.is_write & (
        (requests.offset % sector_size) | (requests.length % sector_size) > 0
    )
    if odd.any():
        request = int(np.argmax(odd))
        raise UsageError(
            f"request {request} ({int(requests.length[request]):,} bytes at byte "
            f"{int(requests.offset[request]):,}) is not aligned to {sector_size} bytes",
            hint="export with sectors of 512 bytes"
            if sector_size > 512
            else "the format cannot hold it",
        )


def _marks(
    timeline: Timeline, history: History | None, sector_size: int
) -> list[tuple[int, int, bytes]]:
    """All marks: instant, rank among marks of one instant, name."""
    found = [
        (int(at), 0, name.encode())
        for at, name in timeline.marks
        if name != END_MARK and not (history is not None and is_claim(name))
    ]
    if history is not None:
        for rank, word, lsns, instants in (
            (1, "attempt", history.attempt_lsn, history.attempt_ns),
            (2, "ack", history.ack_lsn, history.ack_ns),
        ):
            found += [
                (int(at), rank, f"{word} {int(lsn)}".encode())
                for lsn, at in zip(lsns, instants, strict=True)
            ]
        found += [(0, 0, f"fact {key}={value}".encode()) for key, value in history.facts.items()]
    room = sector_size - ENTRY.size - 1
    for _, _, name in found:
        if len(name) > room or b"\0" in name:
            raise UsageError(
                f"the mark {name[:40]!r}... cannot be exported: a log of {sector_size}-byte "
                f"sectors holds names of up to {room} bytes without zero bytes",
                hint="use a larger sector size, or shorter marks",
            )
    return sorted(found, key=lambda mark: mark[:2])


@dataclass
class _Held:
    """A completed write that no flush has covered yet, and which parts of it still count."""

    completed: int
    request: int
    parts: list[tuple[int, int]]  # byte ranges on the disk: start, end


class _Writer:
    """Appends entries to the file."""

    def __init__(self, file: BinaryIO, sector_size: int) -> None:
        self._file = file
        self._sector_size = sector_size
        self._head = bytearray(sector_size)
        self.entries = 0
        self.flushes = 0
        self.marks = 0
        self.size = sector_size
        file.seek(sector_size)

    def entry(self, offset: int, length: int, flags: int, data: memoryview | None = None) -> None:
        """One entry of `length` bytes at `offset`; without data it is a discard, or empty."""
        size = self._sector_size
        ENTRY.pack_into(self._head, 0, offset // size, length // size, flags, 0)
        self._file.write(self._head)
        self.entries += 1
        self.size += size
        if data is not None:
            self._file.write(data)
            self.size += length

    def zeroes(self, offset: int, length: int, flags: int) -> None:
        """A write of zeroes, which takes no room in the file."""
        self.entry(offset, length, flags)
        self._file.seek(length, os.SEEK_CUR)
        self.size += length

    def flush(self) -> None:
        self.entry(0, 0, _FLAG_FLUSH)
        self.flushes += 1

    def mark(self, name: bytes) -> None:
        head = bytearray(self._sector_size)
        ENTRY.pack_into(head, 0, 0, 0, Flag.MARK, len(name))
        head[ENTRY.size : ENTRY.size + len(name)] = name
        self._file.write(head)
        self.entries += 1
        self.marks += 1
        self.size += self._sector_size

    def finish(self) -> None:
        """The closing mark, and the superblock, once the rest is on the disk."""
        self.mark(END_MARK.encode())
        self._file.truncate(self.size)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.seek(0)
        self._file.write(SUPERBLOCK.pack(MAGIC, VERSION, self.entries, self._sector_size))
        self._file.flush()
        os.fsync(self._file.fileno())


_COMPLETION, _CLAIM = 0, 1

# As plain numbers: members of an enum cost more than all else that is done for an entry.
_WRITE, _DISCARD, _FLUSH = map(int, (RequestKind.WRITE, RequestKind.DISCARD, RequestKind.FLUSH))
_FLAG_FLUSH, _FLAG_FUA, _FLAG_DISCARD = map(int, (Flag.FLUSH, Flag.FUA, Flag.DISCARD))


def _events(timeline: Timeline, marks: list[tuple[int, int, bytes]]) -> Iterator[tuple[int, int]]:
    """Completions (as request numbers) and marks (as indices), in time order.

    At one and the same instant the completion comes first.
    """
    requests = timeline.requests
    done = np.flatnonzero(requests.completed_ns != NEVER)  # what failed never completed
    done = done[np.argsort(requests.completed_ns[done], kind="stable")]
    at = requests.completed_ns[done]
    claim_at = np.array([mark[0] for mark in marks], np.int64)
    instants = np.concatenate([at, claim_at])
    what = np.repeat(np.array([_COMPLETION, _CLAIM]), [len(at), len(claim_at)])
    which = np.concatenate([done, np.arange(len(claim_at))])
    order = np.lexsort((what, instants))
    for start in range(0, len(order), 1 << 16):
        part = order[start : start + (1 << 16)]
        yield from zip(what[part].tolist(), which[part].tolist(), strict=True)


def _replay(timeline: Timeline, marks: list[tuple[int, int, bytes]], writer: _Writer) -> None:
    """Acts as the target would have, event after event."""
    requests = timeline.requests
    fua = requests.fua | (not timeline.contract.volatile_cache)
    contested = _contested(timeline, fua)
    held: list[_Held] = []
    for what, index in _events(timeline, marks):
        if what == _CLAIM:
            writer.mark(marks[index][2])
            continue
        start = int(requests.offset[index])
        end = start + int(requests.length[index])
        if requests.kind[index] == _FLUSH:
            held = _log_covered(timeline, writer, held, int(requests.submitted_ns[index]))
            writer.flush()
        elif start == end:
            continue
        elif fua[index]:
            if contested[index]:
                for other in held:
                    if contested[other.request]:
                        other.parts = _without(other.parts, start, end)
            _log_write(timeline, writer, index, [(start, end)], _FLAG_FUA)
        else:
            held.append(_Held(int(requests.completed_ns[index]), index, [(start, end)]))
    for other in held:
        _log_write(timeline, writer, other.request, other.parts, 0)


def _contested(timeline: Timeline, fua: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """True for the writes that overlap another one, if FUA and other writes are mixed at all."""
    requests = timeline.requests
    contested = np.zeros(len(requests), np.bool_)
    index = np.flatnonzero(requests.is_write & (requests.length > 0))
    if fua[index].any() and not fua[index].all():
        group = np.zeros(len(index), np.int64)
        contested[index] = overlaps(group, requests.offset[index], requests.length[index])
    return contested


def _without(parts: list[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    """`parts` minus the range from `start` to `end`."""
    left: list[tuple[int, int]] = []
    for first, last in parts:
        if last <= start or first >= end:
            left.append((first, last))
            continue
        if first < start:
            left.append((first, start))
        if last > end:
            left.append((end, last))
    return left


def _log_covered(
    timeline: Timeline, writer: _Writer, held: list[_Held], submitted: int
) -> list[_Held]:
    """Logs the held back writes that completed before `submitted`; returns the others."""
    covered = 0
    for other in held:
        if other.completed >= submitted:
            break
        _log_write(timeline, writer, other.request, other.parts, 0)
        covered += 1
    return held[covered:]


def _log_write(
    timeline: Timeline,
    writer: _Writer,
    request: int,
    parts: list[tuple[int, int]],
    flags: int,
) -> None:
    """Logs `parts` of a write, write-zeroes or discard."""
    requests = timeline.requests
    kind = requests.kind[request]
    for first, last in parts:
        for start in range(first, last, PIECE):
            length = min(PIECE, last - start)
            if kind == _WRITE:
                at = int(requests.data_offset[request]) + start - int(requests.offset[request])
                writer.entry(start, length, flags, timeline.data[at : at + length].data)
            elif kind == _DISCARD and not flags:
                writer.entry(start, length, _FLAG_DISCARD)
            else:
                writer.zeroes(start, length, flags)
