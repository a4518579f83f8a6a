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

import enum
import functools
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.model.errors import UsageError

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

POSITION_MAX: Final = 1 << 62
"""Byte offset in a log (workloads/wal/config.c)."""

RECORDS_MAX: Final = 1 << 24
"""Records that a run may attempt.  Hours at thousands a second; evidence that claims more is
refused before anything of that length is laid out in memory."""

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


@functools.cache
def _crc_table() -> npt.NDArray[np.uint32]:
    """CRC32C (Castagnoli, RFC 3720 appendix B.4), reflected polynomial 0x82f63b78."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        odd = (table & np.uint32(1)).astype(bool)
        table = np.where(
            odd, (table >> np.uint32(1)) ^ np.uint32(0x82F63B78), table >> np.uint32(1)
        )
    return table


def crc32c(data: bytes | npt.NDArray[np.uint8]) -> int:
    """CRC32C of a few bytes; for many rows of equal length take `crc32c_rows`."""
    rows = np.frombuffer(data, dtype=np.uint8) if isinstance(data, bytes) else data
    table = _crc_table().tolist()
    crc = 0xFFFFFFFF
    for byte in rows.tolist():
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


@functools.cache
def _row_tables(length: int) -> tuple[npt.NDArray[np.uint32], np.uint32]:
    """What each value of each pair of bytes changes in the CRC of a row, and CRC(zeroes)."""
    table = _crc_table()
    tables = np.empty((length, 256), dtype=np.uint32)
    tables[length - 1] = table
    for position in range(length - 2, -1, -1):
        after = tables[position + 1]
        tables[position] = table[after & np.uint32(0xFF)] ^ (after >> np.uint32(8))
    pairs = tables[0::2, None, :] ^ tables[1::2, :, None]  # the second byte is the high one
    return pairs.reshape(length // 2, 1 << 16), np.uint32(crc32c(bytes(length)))


def crc32c_rows(rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    """CRC32C of each row of an even number of bytes.

    A CRC is linear, so each pair of bytes adds its share by itself.
    """
    pairs = np.ascontiguousarray(rows).view("<u2")
    tables, crc_of_zeroes = _row_tables(rows.shape[1])
    crc = np.full(len(rows), crc_of_zeroes, dtype=np.uint32)
    for at, table in enumerate(tables):
        column = pairs[:, at]
        # Most fields of a header are the same in all records of a batch.
        if len(column) and bool((column == column[0]).all()):
            column = column[:1]
        crc ^= table[column]
    return crc


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


class LayoutKind(enum.Enum):
    """How the log lies in its file, files or device."""

    APPEND = "append"
    PREALLOC = "prealloc"
    PREWRITTEN = "prewritten"
    RECYCLED = "recycled"
    SEGMENTS = "segments"
    RAW = "raw"


@dataclass(frozen=True)
class WalLayout:
    """Where each record of a log belongs.  All sizes are bytes.

    `align` is 0 for packed records.  `capacity` is 0 for a log that grows.  `offset`
    is where a raw log begins on its device.  `mapped`: something that the log knows nothing
    of, an image format, decides where on the captured disk a raw log's bytes lie.

    Raises `UsageError` for numbers that no log can have.
    """

    kind: LayoutKind
    record: int = 512
    align: int = 0
    capacity: int = 0
    segment: int = 0
    offset: int = 0
    mapped: bool = False

    def __post_init__(self) -> None:
        if self.record % CHUNK or not RECORD_MIN <= self.record <= RECORD_MAX:
            raise UsageError(
                f"record={self.record}: a record has 64 to 1048576 bytes",
                hint="choose a multiple of 64",
            )
        if self.align not in (0, 512, 4096):
            raise UsageError(
                f"align={self.align}: records are packed (0) or aligned to 512 or 4096"
            )
        if (
            self.offset % 512
            or self.offset < 0
            or (self.offset and self.kind is not LayoutKind.RAW)
        ):
            raise UsageError(f"offset={self.offset}: a raw log begins at a multiple of 512")
        if max(self.offset, self.capacity, self.segment) > POSITION_MAX:
            raise UsageError(f"a log ends at byte {POSITION_MAX} at the latest")
        sized = self.kind not in (LayoutKind.APPEND, LayoutKind.SEGMENTS)
        if sized and self.capacity < self.stride:
            raise UsageError(f"capacity={self.capacity}: not one slot of {self.stride} bytes fits")
        if self.kind is LayoutKind.SEGMENTS and self.segment < self.stride:
            raise UsageError(f"segment={self.segment}: not one slot of {self.stride} bytes fits")

    @property
    def stride(self) -> int:
        """Bytes from one slot to the next."""
        return -(-self.record // self.align) * self.align if self.align else self.record

    @property
    def chunks(self) -> int:
        """64-byte chunks in a record, the header included."""
        return self.record // CHUNK

    @property
    def in_place(self) -> bool:
        """Whether each record has one place on the captured disk, known in advance."""
        return self.kind is LayoutKind.RAW and not self.mapped

    @property
    def wraps(self) -> bool:
        """Whether a full log goes on over its oldest records."""
        return self.kind in (LayoutKind.RECYCLED, LayoutKind.RAW)

    @property
    def slots(self) -> int:
        """Number of slots; 0 for a log that grows without end."""
        if self.kind in (LayoutKind.APPEND, LayoutKind.SEGMENTS):
            return 0
        return self.capacity // self.stride

    @property
    def slots_per_segment(self) -> int:
        """Slots in one segment file; 0 if the log is not made of segments."""
        return self.segment // self.stride if self.kind is LayoutKind.SEGMENTS else 0

    def slot_of(self, lsn: int) -> int:
        """The slot that record `lsn` belongs to."""
        return (lsn - 1) % self.slots if self.wraps else lsn - 1

    def position_of(self, lsn: int) -> int:
        """Byte offset in the log of record `lsn` (over the concatenated segments)."""
        slot = self.slot_of(lsn)
        if self.slots_per_segment:
            index, within = divmod(slot, self.slots_per_segment)
            return index * self.segment + within * self.stride
        return slot * self.stride

    def positions_of(self, lsns: U64) -> U64:
        """`position_of` for many."""
        slot = lsns - np.uint64(1)
        if self.wraps:
            slot = slot % np.uint64(self.slots)
        if not self.slots_per_segment:
            return slot * np.uint64(self.stride)
        per_file = np.uint64(self.slots_per_segment)
        within = slot % per_file * np.uint64(self.stride)
        return slot // per_file * np.uint64(self.segment) + within

    def generations_of(self, lsns: U64) -> U64:
        """How often the slot of each record was written before it, modulo 2^16."""
        prewritten = np.uint64(self.kind in (LayoutKind.PREWRITTEN, LayoutKind.RECYCLED))
        rounds = (lsns - np.uint64(1)) // np.uint64(self.slots or 1 << LSN_BITS)
        return (rounds + prewritten) % np.uint64(1 << 16)

    def oldest_required(self, attempted: int) -> int:
        """Lowest LSN that may still be asked for once `attempted` was attempted.

        In a log that wraps, the attempt of record n + slots gives record n up.
        """
        return max(1, attempted - self.slots + 1) if self.wraps else 1
