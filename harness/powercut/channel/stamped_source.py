# SPDX-License-Identifier: Apache-2.0
"""Lines of a program of this host, each with the instant at which its kernel took it in.

A packet on a unix socket is stamped as it is put into the receiver's queue, within the program's
own write (SO_TIMESTAMPNS; unix_dgram_sendmsg in Linux's net/unix/af_unix.c).  So an ack is not
dated before it was made, and not after the program went on.

The stamp is CLOCK_REALTIME, which can be set; the disk's clock is CLOCK_MONOTONIC.  Their distance
is bounded by a reading of one between two of the other, before the program starts and behind each
packet.  As long as all these bounds have something in common nobody has set the clock, and a packet
gets the latest instant that they allow, at the latest its receipt: an ack that counts a microsecond
late requires nothing that was not promised.  From the first reading that disagrees, and where a
stamp lies after its receipt, the receipt counts, and the packet is not `stamped`.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from powercut.channel.line_sources import PacketSocket
from powercut.model.operations import Packet

_SO_TIMESTAMPNS: Final = 35
"""asm-generic/socket.h; the control message has the same number, and a struct timespec."""

_SO_SNDBUFFORCE: Final = 32
"""The same: room in bytes, for root beyond what the host sets."""

_TIMESPEC: Final = struct.Struct("@ll")
_PACKET_MAX: Final = 4 << 20
_FIRST_READINGS: Final = 8

Clock = Callable[[], int]


class Distance:
    """How far CLOCK_REALTIME is ahead of CLOCK_MONOTONIC, in nanoseconds."""

    def __init__(self, real: Clock = time.time_ns, monotonic: Clock = time.monotonic_ns) -> None:
        self._real = real
        self._monotonic = monotonic
        self._low, self._high = self._read()
        for _ in range(_FIRST_READINGS):
            self.holds()

    @property
    def doubt_ns(self) -> int:
        """How far the readings leave it open."""
        return self._high - self._low

    def holds(self) -> bool:
        """Reads both clocks; whether all readings so far can be those of one distance."""
        low, high = self._read()
        self._low, self._high = max(self._low, low), min(self._high, high)
        return self._low <= self._high

    def bounds(self, real_ns: int) -> tuple[int, int]:
        """The first and the last instant of CLOCK_MONOTONIC at which the other can have said so."""
        return real_ns - self._high, real_ns - self._low

    def _read(self) -> tuple[int, int]:
        before, real, after = self._monotonic(), self._real(), self._monotonic()
        return real - after, real - before


class StampedSource(PacketSocket):
    """`LineSource` for a program of this host."""

    def __init__(self, distance: Distance | None = None) -> None:
        super().__init__(_PACKET_MAX)
        self._ours.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        with suppress(PermissionError):  # then a write has the room that everybody's has
            self.theirs.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _PACKET_MAX)
        self._distance = distance or Distance()
        self._was_set = False
        self._last_ns = 0

    def next(self) -> Packet | None:
        raw, control = self.receive()
        received_ns = time.monotonic_ns()
        if not raw and not control:  # a write of nothing has its stamp, too
            return None
        self._was_set = self._was_set or not self._distance.holds()
        at_ns = self._made_ns(control, received_ns)
        self._last_ns = received_ns if at_ns is None else at_ns
        return Packet(self._last_ns, raw, at_ns is not None)

    def _made_ns(self, control: list[tuple[int, int, bytes]], received_ns: int) -> int | None:
        """The last instant at which a packet can have been written; None if that is not known."""
        for level, kind, data in control if not self._was_set else ():
            if (level, kind, len(data)) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS, _TIMESPEC.size):
                seconds, rest = _TIMESPEC.unpack(data)
                first, last = self._distance.bounds(seconds * 1_000_000_000 + rest)
                if first <= received_ns:
                    return min(max(last, self._last_ns), received_ns)
        return None
