# SPDX-License-Identifier: Apache-2.0
"""Lines, as a program says them, and the file that keeps them as they were received.

8 bytes `PCLINES1`, 32 bytes that name the recording (powercut.model.binding), then for each
packet its instant (u64, nanoseconds of CLOCK_MONOTONIC), its length (u32) and its bytes,
little-endian.  Bit 31 of the length says that the host's kernel has stamped it (`Packet.stamped`);
bit 30 that the first 8 bytes are the guest's clock (`Packet.guest_ns`, u64); both that it is the
answer to a ping: that clock, and when the ping was sent (`Packet.sent_ns`, u64).
"""

from __future__ import annotations

import collections
import re
import struct
from typing import Final

from powercut.model.binding import Binding
from powercut.model.errors import DamagedRecording
from powercut.model.operations import Packet

MAGIC: Final = b"PCLINES1"
END_OF_LINES: Final = b"\0\n"
"""What the guest's agent says after a program's last line (guests/agent/child.c)."""

GUEST_PORT: Final = "the guest's port for lines"
"""As messages speak of it."""

LINE_MAX: Final = 4096
"""Bytes of a line that counts, without its end."""

LINES_MAX: Final = 4 << 20
"""Lines, and writes, that a program may say in a run: each is an object where they are read."""

UNFINISHED_MAX: Final = 1 << 20
"""Bytes that may come without an end of line; beyond them a program says no line any more."""

WRONG_MAX: Final = 100_000
"""Lines that no claim is made by, and acks without an attempt: nothing can come of such a run."""

OPEN_MAX: Final = 1 << 20
"""Attempts that are neither acknowledged nor failed."""

_HEADER: Final = struct.Struct("<QI")
_STAMPED: Final = 1 << 31
_GUEST: Final = 1 << 30
_PING: Final = _STAMPED | _GUEST
_CLOCK: Final = struct.Struct("<Q")
_TRIP: Final = struct.Struct("<QQ")
_CLAIMS: Final = (b"?", b"+", b"-", b"~")
"""How a line of the contract begins that a program may say again and again."""

_ACK: Final = re.compile(rb"\+ [0-9]{1,19}\r*")


def pack(packet: Packet) -> bytes:
    """A packet as it stands in the file."""
    kind, data = (_STAMPED if packet.stamped else 0), packet.data
    if packet.sent_ns is not None:
        kind, data = _PING, _TRIP.pack(packet.guest_ns or 0, packet.sent_ns)
    elif packet.guest_ns is not None:
        kind, data = _GUEST, _CLOCK.pack(packet.guest_ns) + data
    return _HEADER.pack(packet.at_ns, len(data) | kind) + data


def header(binding: Binding) -> bytes:
    """The beginning of the file of a recording."""
    return MAGIC + binding.digest


def unpack(data: bytes, binding: Binding) -> tuple[Packet, ...]:
    """The packets of a file.

    Raises DamagedRecording for anything else: a file that was cut, or one of another recording.
    """
    if not data.startswith(MAGIC):
        raise DamagedRecording("the lines of the program do not begin as such a file does")
    if not data.startswith(header(binding)):
        raise DamagedRecording("the lines of the program are of another recording")
    packets: list[Packet] = []
    at = len(header(binding))
    while at < len(data):
        if len(packets) > LINES_MAX:
            raise DamagedRecording(f"the program's lines came in more than {LINES_MAX:,} writes")
        if at + _HEADER.size > len(data):
            raise DamagedRecording(f"the lines of the program end within a packet, at byte {at}")
        instant, length = _HEADER.unpack_from(data, at)
        kind, length = length & _PING, length & ~_PING
        at += _HEADER.size
        if at + length > len(data):
            raise DamagedRecording(f"the lines of the program end within a packet, at byte {at}")
        packets.append(_packet(instant, kind, data[at : at + length]))
        at += length
    return tuple(packets)


def _packet(instant: int, kind: int, data: bytes) -> Packet:
    if kind == _PING and len(data) == _TRIP.size:
        guest_ns, sent_ns = _TRIP.unpack(data)
        return Packet(instant, b"", guest_ns=guest_ns, sent_ns=sent_ns)
    if kind == _GUEST and len(data) >= _CLOCK.size:
        (guest_ns,) = _CLOCK.unpack_from(data)
        return Packet(instant, data[_CLOCK.size :], guest_ns=guest_ns)
    if kind & _GUEST:
        raise DamagedRecording(
            f"a packet of the program's lines has {len(data)} bytes of its clock"
        )
    return Packet(instant, data, kind == _STAMPED)


class LineCounter:
    """Counts acks as they come in, however the lines are cut to pieces."""

    def __init__(self) -> None:
        self.acks = 0
        self.ready = False
        self.too_much = ""
        """What of it was more than a program may say; empty if nothing was."""
        self._rest = b""
        self._lines = 0
        self._writes = 0
        self._unfinished = 0
        self._open = 0
        self._wrong = 0

    @property
    def begun(self) -> bool:
        """Whether the program is ready, or has acknowledged something."""
        return self.ready or self.acks > 0

    def take(self, data: bytes) -> None:
        """Takes what was received."""
        *whole, rest = (self._rest + data).split(b"\n")
        self._rest = rest[: LINE_MAX + 1]  # a line that is longer is none, however it continues
        acks = sum(_ACK.fullmatch(line) is not None for line in whole)
        self.acks += acks
        marks = collections.Counter(line[:1] for line in whole)
        self._open += marks[b"?"] - marks[b"-"] - acks
        self._wrong += len(whole) - sum(marks[mark] for mark in _CLAIMS)
        self._count(data, len(whole))
        self.ready = self.ready or any(line.rstrip(b"\r") == b"ready" for line in whole)

    def _count(self, data: bytes, lines: int) -> None:
        self._writes += 1
        self._lines += lines
        behind = len(data) - data.rfind(b"\n") - 1
        self._unfinished = behind if lines else self._unfinished + behind
        if self._unfinished > UNFINISHED_MAX:
            self.too_much = f"a line of more than {UNFINISHED_MAX >> 20} MiB"
        elif self._lines > LINES_MAX:
            self.too_much = f"more than {LINES_MAX:,} lines"
        elif self._writes > LINES_MAX:
            self.too_much = f"lines in more than {LINES_MAX:,} writes"
        elif self._wrong > WRONG_MAX:
            self.too_much = f"more than {WRONG_MAX:,} lines that claim nothing"
        elif self._open < -WRONG_MAX:
            self.too_much = f"{WRONG_MAX:,} acks more than attempts"
        elif self._open > OPEN_MAX:
            self.too_much = f"{OPEN_MAX:,} attempts more than were acknowledged or failed"
