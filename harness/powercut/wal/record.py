# SPDX-License-Identifier: Apache-2.0
"""The record format of the WAL workload, as workloads/wal/wal_format.h defines it.

A record is made of 64-byte chunks: a header, then payload words that are a
bijection of (stream, LSN, index), so that one word found anywhere names the
record and the place in it that it belongs to.  `mix` is the finaliser of
splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
OOPSLA 2014).

Everything here works on whole arrays; sizes, offsets and positions are bytes.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.model.crc32c import crc32c

U64 = npt.NDArray[np.uint64]

MAGIC: Final = 0x4C415750
VERSION: Final = 1
CHUNK: Final = 64
WORDS_PER_CHUNK: Final = CHUNK // 8
RECORD_MIN: Final = 64
RECORD_MAX: Final = 1 << 20
STREAMS_MAX: Final = 128
INDEX_BITS: Final = 17
LSN_BITS: Final = 40

HEADER: Final = np.dtype(
    [
        ("magic", "<u4"),
        ("version", "<u2"),
        ("generation", "<u2"),
        ("run_id", "V16"),
        ("stream", "<u4"),
        ("length", "<u4"),
        ("lsn", "<u8"),
        ("prev_lsn", "<u8"),
        ("position", "<u8"),
        ("payload_crc", "<u4"),
        ("header_crc", "<u4"),
    ]
)
"""struct wal_header."""
assert HEADER.itemsize == CHUNK

_FACTOR_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_FACTOR_2: Final = np.uint64(0x94D049BB133111EB)
_INVERSE_1: Final = np.uint64(pow(0xBF58476D1CE4E5B9, -1, 1 << 64))
_INVERSE_2: Final = np.uint64(pow(0x94D049BB133111EB, -1, 1 << 64))
_SHIFT: Final = {bits: np.uint64(bits) for bits in (27, 30, 31, 54, 60, 62)}


def mix(words: U64) -> U64:
    """The bijection of 64 bits; mix(0) = 0."""
    mixed = words ^ (words >> _SHIFT[30])
    mixed *= _FACTOR_1
    mixed ^= mixed >> _SHIFT[27]
    mixed *= _FACTOR_2
    mixed ^= mixed >> _SHIFT[31]
    return mixed


def unmix(words: U64) -> U64:
    """Undoes `mix`."""
    # A xor-shift by s is undone by xor-shifts by s, 2s, ... below 64.
    plain = words ^ (words >> _SHIFT[31])
    plain ^= words >> _SHIFT[62]
    plain *= _INVERSE_2
    plain ^= (plain >> _SHIFT[27]) ^ (plain >> _SHIFT[54])
    plain *= _INVERSE_1
    plain ^= (plain >> _SHIFT[30]) ^ (plain >> _SHIFT[60])
    return plain


def key(run_id: bytes) -> np.uint64:
    """The run's key: mix(lo ^ mix(hi)) of the little-endian halves of its 16 bytes."""
    if len(run_id) != 16:
        raise ValueError(f"a run id has 16 bytes, not {len(run_id)}")
    halves = np.frombuffer(run_id, dtype="<u8")
    return np.uint64(mix(halves[:1] ^ mix(halves[1:]))[0])


def payload_words(run_key: np.uint64, stream: int, lsn: int, count: int) -> U64:
    """The first `count` payload words of a record."""
    place = np.uint64(stream << (LSN_BITS + INDEX_BITS) | lsn << INDEX_BITS)
    return mix(run_key ^ (place | np.arange(count, dtype=np.uint64)))


def record_bytes(
    run_id: bytes,
    stream: int,
    lsn: int,
    *,
    prev_lsn: int,
    generation: int,
    position: int,
    record_size: int,
) -> bytes:
    """A whole record, as the workload writes it (without the padding behind it)."""
    if record_size % CHUNK or not RECORD_MIN <= record_size <= RECORD_MAX:
        raise ValueError(f"a record has 64..1048576 bytes in steps of 64, not {record_size}")
    length = record_size - CHUNK
    payload = payload_words(key(run_id), stream, lsn, length // 8).astype("<u8").tobytes()
    header = np.zeros(1, dtype=HEADER)
    header["magic"], header["version"] = MAGIC, VERSION
    header["generation"] = generation % (1 << 16)
    header["run_id"] = np.void(run_id)
    header["stream"], header["length"] = stream, length
    header["lsn"], header["prev_lsn"], header["position"] = lsn, prev_lsn, position
    header["payload_crc"] = crc32c(payload)
    header["header_crc"] = crc32c(header.tobytes()[:-4])
    return header.tobytes() + payload
