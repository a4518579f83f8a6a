# SPDX-License-Identifier: Apache-2.0
"""Finds the records in captured writes by their content alone.

Each 64-byte chunk of a write is judged by its first word: a payload word, undone,
names (stream, LSN, index); a header begins with the magic number and must have the
run's id and the right checksum.  A map of the file system is not needed, and a
record is recognised in a journal as well as in its file.

A foreign chunk can look like a payload chunk by chance, once in 2^57 divided by the
number of valid places.  So a chunk that does not continue its neighbour in the same
write is believed only if all eight of its words agree, and `deep` asks that of every
chunk.  The checksum of the payload is not computed: the words are compared instead.

Memory is bounded by the block size plus what is found: one row for each run of
consecutive chunks in one write.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.model.crc32c import crc32c_rows
from powercut.model.errors import PowercutError
from powercut.model.timeline import RequestKind, Timeline
from powercut.wal import record as wal
from powercut.wal.layout import WalLayout

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

BLOCK: Final = 2 << 20
"""Payload bytes looked at in one go: its work arrays stay in the processor's cache."""

_INDEX_MASK: Final = np.uint64((1 << wal.INDEX_BITS) - 1)
_LSN_MASK: Final = np.uint64((1 << wal.LSN_BITS) - 1)
_INDEX_BITS: Final = np.uint64(wal.INDEX_BITS)
_MAGIC_AND_VERSION: Final = np.uint64(wal.MAGIC | wal.VERSION << 32)
_MAGIC_MASK: Final = np.uint64((1 << 48) - 1)

# A header as eight words: magic, version and generation; the run's id; and then:
_STREAM_AND_LENGTH: Final = 3
_LSN: Final = 4
_POSITION: Final = 6
_CHECKSUMS: Final = 7


@dataclass(frozen=True)
class Runs:
    """Consecutive chunks of the log in consecutive chunks of the disk, carried by one write.

    `write`: the request.  `place`: the disk's 64-byte chunk, from 0.  `chunk`: the
    log's chunk: (LSN - 1) * chunks of a record + chunk in the record.  `count`: how
    many.  `bytes_scanned`: payload that was looked at.
    """

    write: I64
    place: I64
    chunk: I64
    count: I64
    bytes_scanned: int = 0

    def __len__(self) -> int:
        return len(self.write)

    def select(self, which: Mask | I64) -> Runs:
        """Only the runs that `which` picks."""
        return Runs(
            self.write[which],
            self.place[which],
            self.chunk[which],
            self.count[which],
            self.bytes_scanned,
        )


@dataclass(frozen=True)
class _Target:
    run_id: npt.NDArray[np.uint64]
    key: np.uint64
    lsn_max: np.uint64
    chunks: int
    length: int
    layout: WalLayout
    deep: bool


def scan(
    timeline: Timeline,
    run_id: bytes,
    layout: WalLayout,
    lsn_max: int,
    *,
    deep: bool = False,
) -> Runs:
    """All runs of the records 1 to `lsn_max` of run `run_id` in the timeline's writes.

    Raises `PowercutError` for writes that are not a whole number of chunks.
    """
    target = _Target(
        run_id=np.frombuffer(run_id, dtype="<u8"),
        key=wal.key(run_id),
        lsn_max=np.uint64(lsn_max),
        chunks=layout.chunks,
        length=layout.record - wal.CHUNK,
        layout=layout,
        deep=deep,
    )
    pieces: list[tuple[I64, I64, I64, I64]] = []
    scanned = 0
    for writes, starts, rows in _blocks(timeline):
        scanned += rows.nbytes
        position, chunk, count = _runs_in(rows, starts, target)
        if len(position):
            which = np.searchsorted(starts, position, side="right") - 1
            disk = timeline.requests.offset[writes] // wal.CHUNK - starts
            pieces.append((writes[which], disk[which] + position, chunk, count))
    if not pieces:
        empty = np.empty(0, dtype=np.int64)
        return Runs(empty, empty, empty, empty, scanned)
    write, place, chunk, count = (np.concatenate(column) for column in zip(*pieces, strict=True))
    return Runs(write, place, chunk, count, scanned)


def _blocks(timeline: Timeline) -> Iterator[tuple[I64, I64, npt.NDArray[np.uint64]]]:
    """Groups of whole writes: their indices, where each starts (in chunks), and the chunks.

    A group has about `BLOCK` bytes; more only if its single write has.
    """
    requests = timeline.requests
    carries = (requests.kind == RequestKind.WRITE) & (requests.data_offset >= 0)
    writes = np.flatnonzero(carries & (requests.length > 0))
    offset, length = requests.offset[writes], requests.length[writes]
    uneven = np.flatnonzero((offset % wal.CHUNK != 0) | (length % wal.CHUNK != 0))
    if len(uneven):
        at = int(writes[uneven[0]])
        raise PowercutError(
            f"write {at} ({int(requests.length[at])} bytes at {int(requests.offset[at])}) is not "
            f"a whole number of {wal.CHUNK}-byte chunks",
            hint="records can only be found in writes of whole sectors",
        )
    data_offset = requests.data_offset[writes]
    ends = np.cumsum(length)
    first = 0
    while first < len(writes):
        before = int(ends[first - 1]) if first else 0
        last = max(int(np.searchsorted(ends, before + BLOCK, side="right")), first + 1)
        begin = data_offset[first:last]
        size = length[first:last]
        if bool((begin[1:] == begin[:-1] + size[:-1]).all()):
            payload = timeline.data[int(begin[0]) : int(begin[-1] + size[-1])]
        else:
            pieces = zip(begin.tolist(), size.tolist(), strict=True)
            payload = np.concatenate([timeline.data[at : at + n] for at, n in pieces])
        starts = (ends[first:last] - size - before) // wal.CHUNK
        yield writes[first:last], starts, payload.view("<u8").reshape(-1, wal.WORDS_PER_CHUNK)
        first = last


def _runs_in(rows: npt.NDArray[np.uint64], starts: I64, target: _Target) -> tuple[I64, I64, I64]:
    """Position, log chunk and count of each run among `rows`; `starts` begin new writes."""
    words = np.ascontiguousarray(rows[:, 0])
    plain = wal.unmix(words)
    plain ^= target.key
    lsn = (plain >> _INDEX_BITS) & _LSN_MASK
    index = plain & _INDEX_MASK
    # LSN 0 wraps to the largest number and falls out; so does an index between chunks.
    good = (lsn - np.uint64(1)) < target.lsn_max
    good &= (index & np.uint64(7)) == 0
    good &= index < np.uint64(target.length // 8)
    chunk = ((lsn - np.uint64(1)) * np.uint64(target.chunks) + (index >> np.uint64(3))).astype(
        np.int64
    ) + 1
    headers = np.flatnonzero((words & _MAGIC_MASK) == _MAGIC_AND_VERSION)
    good[headers] = False
    if len(headers):
        headers, header_lsn = _genuine_headers(rows, headers, target)
        good[headers] = True
        chunk[headers] = (header_lsn - 1) * target.chunks
    if target.deep:
        good &= _all_words_agree(
            rows, plain, target.key, np.flatnonzero(good & ~_mask(headers, len(rows)))
        )
    joined = np.zeros(len(rows), dtype=np.bool_)
    joined[1:] = good[1:] & good[:-1] & (chunk[1:] == chunk[:-1] + 1)
    joined[starts] = False
    alone = good & ~joined
    alone[:-1] &= ~joined[1:]
    alone[headers] = False
    suspects = np.flatnonzero(alone)
    if len(suspects):
        good &= _all_words_agree(rows, plain, target.key, suspects)
    begin = np.flatnonzero(good & ~joined)
    stays = np.zeros(len(rows), dtype=np.bool_)
    stays[:-1] = joined[1:]
    end = np.flatnonzero(good & ~stays)
    return begin, chunk[begin], end - begin + 1


def _mask(indices: I64, size: int) -> Mask:
    mask = np.zeros(size, dtype=np.bool_)
    mask[indices] = True
    return mask


def _all_words_agree(
    rows: npt.NDArray[np.uint64],
    plain: npt.NDArray[np.uint64],
    key: np.uint64,
    suspects: I64,
) -> Mask:
    """False for those of `suspects` in which some word is not what the first one says."""
    agree = np.ones(len(rows), dtype=np.bool_)
    every = 2 * len(suspects) > len(rows)  # looking at all costs less than picking them out
    if not every:
        rows, plain = rows[suspects], plain[suspects]
    right = np.ones(len(rows), dtype=np.bool_)
    for word in range(1, wal.WORDS_PER_CHUNK):
        right &= (wal.unmix(rows[:, word]) ^ key) == (plain | np.uint64(word))
    agree[suspects] = right[suspects] if every else right
    return agree


def _genuine_headers(
    rows: npt.NDArray[np.uint64], candidates: I64, target: _Target
) -> tuple[I64, I64]:
    """The candidates that are headers of this run, whole, in its layout; and their LSNs."""
    rows = rows[candidates] if len(candidates) < len(rows) else rows
    lsn, stream_and_length = rows[:, _LSN], rows[:, _STREAM_AND_LENGTH]
    good = (rows[:, 1] == target.run_id[0]) & (rows[:, 2] == target.run_id[1])
    good &= (lsn - np.uint64(1)) < target.lsn_max
    good &= (stream_and_length >> np.uint64(32)) == np.uint64(target.length)
    good &= (stream_and_length & np.uint64(0xFFFFFFFF)) < np.uint64(wal.STREAMS_MAX)
    if not good.all():
        rows, candidates, lsn = rows[good], candidates[good], lsn[good]
    good = rows[:, _POSITION] == target.layout.positions_of(lsn)
    good &= (rows[:, 0] >> np.uint64(48)) == target.layout.generations_of(lsn)
    crc = crc32c_rows(rows.view(np.uint8).reshape(-1, wal.CHUNK)[:, : wal.CHUNK - 4])
    good &= crc == rows[:, _CHECKSUMS] >> np.uint64(32)
    return candidates[good], lsn[good].astype(np.int64)
