# SPDX-License-Identifier: Apache-2.0
"""Folds what the WAL workload wrote: payload that follows from (run id, stream, LSN, index).

Payload words are a bijection of their place (workloads/wal/wal_format.h), so a chunk of eight
words needs no storing: which record it is says all of it.  A run of such chunks is kept as where
it begins, how many there are and the place of its first word; the bytes become zeroes, and
`unfold` writes them again.  A chunk counts only if it is, word for word, what would be written
again; so folding loses nothing, whatever the bytes are.  Records of generation 0, which fill a log
before it is used, carry a run id of their own (workloads/wal/record.h) and are folded as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.wal import record as wal

Bytes = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]

_STEP: Final = 1 << 14
"""Chunks handled at a time: 1 MiB, which a processor's cache holds."""

_PREWRITTEN_XOR: Final = 0x5A
_WORDS: Final = np.arange(wal.WORDS_PER_CHUNK, dtype=np.uint64)
_INDEX_IN_CHUNK: Final = np.uint64(wal.WORDS_PER_CHUNK - 1)


def keys_of(run_id: bytes) -> tuple[np.uint64, ...]:
    """The keys under which a run writes payload: its own, and that of records of generation 0."""
    prewritten = run_id[:-1] + bytes([run_id[-1] ^ _PREWRITTEN_XOR])
    return wal.key(run_id), wal.key(prewritten)


@dataclass(frozen=True)
class Folds:
    """Runs of folded chunks, one a row: where each begins (in chunks), how many there are, under
    which of the keys, and the place of the first word, before it is mixed."""

    start: U64
    count: U64
    key: U64
    place: U64

    def __len__(self) -> int:
        return len(self.start)


def fold(data: Bytes, run_id: bytes) -> tuple[Bytes, Folds]:
    """A copy of `data` with zeroes for what can be written again, and what was there."""
    folded = data.copy()
    rows = _rows(folded)
    keys = keys_of(run_id)
    parts: list[tuple[U64, U64, U64]] = []
    for begin in range(0, len(rows), _STEP):
        block = rows[begin : begin + _STEP]
        for number, run_key in enumerate(keys):
            at, place = _recognised(block, run_key)
            if len(at):
                block[at] = 0
                which = np.full(len(at), number, dtype=np.uint64)
                parts.append(((at + begin).astype(np.uint64), which, place))
    if not parts:
        none = np.empty(0, dtype=np.uint64)
        return folded, Folds(none, none, none, none)
    # Blocks come in order; within one the second key may have found chunks before the first's.
    every: list[U64] = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.argsort(every[0], kind="stable")
    return folded, _joined(*(column[order] for column in every))


def unfold(data: Bytes, folds: Folds, run_id: bytes) -> None:
    """Writes into `data` again what `fold` has taken out.

    Raises ValueError for folds that cannot be of `data`.
    """
    rows = _rows(data)
    keys = keys_of(run_id)
    room = np.uint64(len(rows))
    outside = (folds.start > room) | (folds.count > room - np.minimum(folds.start, room))
    if outside.any() or (folds.key >= len(keys)).any():
        raise ValueError("folded payload lies outside of the file")
    for number, run_key in enumerate(keys):
        of_key = folds.key == number
        start, count, place = (column[of_key] for column in (folds.start, folds.count, folds.place))
        ends = np.cumsum(count)
        total = int(ends[-1]) if len(ends) else 0
        for begin in range(0, total, _STEP):
            nth = np.arange(begin, min(begin + _STEP, total), dtype=np.uint64)
            run = np.searchsorted(ends, nth, side="right")
            within = nth - (ends[run] - count[run])
            first = place[run] + within * np.uint64(wal.WORDS_PER_CHUNK)
            rows[start[run] + within] = wal.mix(run_key ^ (first[:, None] + _WORDS))


def _rows(data: Bytes) -> U64:
    whole = len(data) // wal.CHUNK * wal.CHUNK
    rows: U64 = data[:whole].view("<u8").reshape(-1, wal.WORDS_PER_CHUNK)
    return rows


def _recognised(block: U64, run_key: np.uint64) -> tuple[npt.NDArray[np.int64], U64]:
    """The chunks of `block` that are payload, and the place of the first word of each."""
    plain = wal.unmix(np.ascontiguousarray(block[:, 0])) ^ run_key
    # A record's payload begins at a chunk: seven of eight others are told by their first word.
    at = np.flatnonzero((plain & _INDEX_IN_CHUNK) == 0)
    place = plain[at]
    same = (block[at] == wal.mix(run_key ^ (place[:, None] + _WORDS))).all(axis=1)
    return at[same], place[same]


def _joined(at: U64, key: U64, place: U64) -> Folds:
    """Chunks that follow one another, in the file and in their record, as one run each."""
    step = np.uint64(wal.WORDS_PER_CHUNK)
    goes_on = (
        (at[1:] == at[:-1] + np.uint64(1))
        & (key[1:] == key[:-1])
        & (place[1:] == place[:-1] + step)
    )
    first = np.flatnonzero(np.concatenate([[True], ~goes_on]))
    count = np.diff(np.append(first, len(at))).astype(np.uint64)
    return Folds(at[first], count, key[first], place[first])
