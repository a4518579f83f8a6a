# SPDX-License-Identifier: Apache-2.0
"""The channel's wire format: the Python mirror of workloads/common/wire.h.

A message is a 40-byte little-endian header and `length` bytes of payload.  `crc` is
CRC32C over the header, with `crc` itself taken as zero, followed by the payload.
Only the very end of a stream may hold an unfinished message (a cut leaves it); it is
dropped.  Anything else that does not decode means that the evidence is damaged.

tests/unit/channel compiles a C program against the header and compares sizes,
offsets, constants and encoded messages byte for byte.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import google_crc32c

from powercut.model.errors import DamagedRecording
from powercut.model.history import LatencyHistogram
from powercut.model.observation import Extent, checked_extents
from powercut.wal.layout import SlotState

MAGIC: Final = 0x31574350
PAYLOAD_MAX: Final = 65536
"""Bytes of payload that a message may carry."""
LATENCY_BUCKETS: Final = 496

HEADER: Final = struct.Struct("<IHHIIQQQ")
"""magic, type, stream, length, crc, lsn, guest_ns, value."""
EXTENT: Final = struct.Struct("<QQQII")
"""slot, count, lsn, state, detail."""
LATENCY: Final = struct.Struct(f"<QQQ{LATENCY_BUCKETS}Q")
"""count, sum_ns, max_ns, buckets."""

_CRC_OFFSET: Final = 12
_AFTER_CRC: Final = 16
_ZERO_CRC: Final = bytes(4)


class MessageType(enum.IntEnum):
    """What a message says; the numbers and their meaning are those of wire.h."""

    HELLO = 1
    READY = 2
    ATTEMPT = 3
    ACK = 4
    MARK = 5
    DONE = 6
    ERROR = 7
    FACT = 8
    EXTENT = 9
    LATENCY = 10
    TEXT = 11
    PONG = 12
    LINES = 13
    READS = 14
    COMMAND = 32
    PING = 33


class Message(NamedTuple):
    """One message.  `guest_ns` is the sender's CLOCK_MONOTONIC in nanoseconds."""

    type: MessageType
    stream: int = 0
    lsn: int = 0
    guest_ns: int = 0
    value: int = 0
    payload: bytes = b""

    @property
    def text(self) -> str:
        """The payload as text; bytes that are not UTF-8 show as escapes."""
        return self.payload.decode("utf-8", "backslashreplace").rstrip("\0\n")


_TYPES: Final = {int(kind): kind for kind in MessageType}


def checksum(header: bytes, payload: bytes) -> int:
    """CRC32C of a message: its header with the `crc` field taken as zero, and its payload."""
    crc: int = google_crc32c.value(header[:_CRC_OFFSET] + _ZERO_CRC + header[_AFTER_CRC:])
    return int(google_crc32c.extend(crc, payload)) if payload else crc


def encode(message: Message) -> bytes:
    """The bytes of a message.  Raises ValueError if the payload is too long."""
    if len(message.payload) > PAYLOAD_MAX:
        raise ValueError(f"payload of {len(message.payload)} bytes; at most {PAYLOAD_MAX}")

    def header(crc: int) -> bytes:
        return HEADER.pack(
            MAGIC,
            message.type,
            message.stream,
            len(message.payload),
            crc,
            message.lsn,
            message.guest_ns,
            message.value,
        )

    return header(checksum(header(0), message.payload)) + message.payload


def command_payload(argv: tuple[str, ...]) -> bytes:
    """The payload of a COMMAND: NUL-terminated strings, verb first.

    Raises ValueError for a string that holds a NUL, which would arrive as two.
    """
    for word in argv:
        if "\0" in word:
            raise ValueError(f"NUL in argument {word!r}")
    return b"".join(word.encode() + b"\0" for word in argv)


class Decoder:
    """Takes a stream apart, whatever pieces it comes in.

    `position` counts the bytes of all messages decoded so far: the offset in the
    stream at which the next message begins.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.position = 0

    @property
    def unfinished(self) -> int:
        """Bytes of a last message that is not complete; after a cut they are dropped."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yields every message that `data` completes.

        Raises DamagedRecording, after what came before it was yielded, at the first
        byte that cannot belong to a message.
        """
        self._buffer += data
        while (message := self._next()) is not None:
            yield message

    def _next(self) -> Message | None:
        buffer = self._buffer
        if len(buffer) < HEADER.size:
            return None
        header = bytes(buffer[: HEADER.size])
        magic, kind, stream, length, crc, lsn, guest_ns, value = HEADER.unpack(header)
        if magic != MAGIC:
            raise self._damage(f"magic is {magic:#010x}, not {MAGIC:#010x}")
        if length > PAYLOAD_MAX:
            raise self._damage(f"payload of {length} bytes; at most {PAYLOAD_MAX}")
        end = HEADER.size + length
        if len(buffer) < end:
            return None
        payload = bytes(buffer[HEADER.size : end])
        if checksum(header, payload) != crc:
            raise self._damage("checksum does not match")
        if kind not in _TYPES:
            raise self._damage(f"unknown message type {kind}")
        del buffer[:end]
        self.position += end
        return Message(_TYPES[kind], stream, lsn, guest_ns, value, payload)

    def _damage(self, what: str) -> DamagedRecording:
        return DamagedRecording(
            f"the guest's channel is damaged at byte {self.position}: {what}",
            hint="nothing else may write to the guest's port; "
            "guest and controller must speak the same version of the wire format",
        )


def decode_extents(payload: bytes) -> tuple[Extent, ...]:
    """The payload of an EXTENT message.  Raises DamagedRecording if it is malformed."""
    if len(payload) % EXTENT.size:
        raise DamagedRecording(
            f"EXTENT message of {len(payload)} bytes; not a multiple of {EXTENT.size}"
        )
    try:
        return checked_extents(
            Extent(slot, count, SlotState(state), lsn, detail)
            for slot, count, lsn, state, detail in EXTENT.iter_unpack(payload)
        )
    except ValueError as error:
        raise DamagedRecording(f"EXTENT message: {error}") from None


def decode_latency(payload: bytes) -> LatencyHistogram:
    """The payload of a LATENCY message.  Raises DamagedRecording if it is malformed."""
    if len(payload) != LATENCY.size:
        raise DamagedRecording(f"LATENCY message of {len(payload)} bytes, not {LATENCY.size}")
    count, sum_ns, max_ns, *buckets = LATENCY.unpack(payload)
    return LatencyHistogram(count, sum_ns, max_ns, tuple(buckets))
