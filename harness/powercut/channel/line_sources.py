# SPDX-License-Identifier: Apache-2.0
"""Where lines come from: packets with instants of their own, or a stream.

User-Mode Linux sends packets that have the host's clock of the moment in which they were written
(guests/uml/stamp.c).  Lines of every other source have the instant of their receipt.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import threading
import time
from typing import Final, Protocol, runtime_checkable

from powercut.channel.lines import END_OF_LINES
from powercut.channel.listener import shut_down
from powercut.model.operations import Packet

# One end of a pair of sockets that carries whole packets, each of them one write.

_MARK_BYTES: Final = 16
_CONTROL_BYTES: Final = 256
"""Room for what the kernel says of a packet, as its stamp."""


class PacketSocket:
    """What sources of packets share.  `theirs` is the end that the program or guest writes to."""

    said_end = False
    connected = True

    def __init__(self, packet_max: int) -> None:
        """`packet_max` is the longest packet that is taken, in bytes."""
        self._ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._packet_max = packet_max
        self._mark = os.urandom(_MARK_BYTES)  # nobody at the other end knows it
        self._passed = threading.Event()

    def receive(self) -> tuple[bytes, list[tuple[int, int, bytes]]]:
        """The next packet and its control messages; nothing of both at the end.

        Raises OSError if a packet was longer than what is taken.
        """
        while True:
            raw, control, flags, _ = self._ours.recvmsg(self._packet_max, _CONTROL_BYTES)
            if flags & socket.MSG_TRUNC:
                raise OSError(errno.EMSGSIZE, f"a packet of more than {self._packet_max} bytes")
            if raw != self._mark:
                return raw, control
            self._passed.set()

    def catch_up(self, *, timeout_s: float) -> bool:
        """As `CatchesUp`, for one thread: a packet of our own comes behind all of theirs."""
        deadline = time.monotonic() + timeout_s
        self._passed.clear()
        try:
            select.select([], [self.theirs], [], max(timeout_s, 0))
            self.theirs.send(self._mark, socket.MSG_DONTWAIT)
        except (OSError, ValueError):  # it is full, or closed
            return False
        return self._passed.wait(max(deadline - time.monotonic(), 0))

    def refuse_others(self) -> None:
        """Only processes that have the other end already hold it from now on."""
        self.theirs.close()

    def hang_up(self) -> None:
        self.theirs.close()
        shut_down(self._ours)

    def close(self) -> None:
        self.theirs.close()
        self._ours.close()


_RECEIVE_BYTES: Final = 1 << 18
_PACKET_MAX: Final = 1 << 20
_UNFINISHED_MAX: Final = 1 << 16


class LineSource(Protocol):
    """Lines on their way in.  One thread calls `next`, another may call `hang_up`."""

    @property
    def connected(self) -> bool:
        """Whether another end is, or was, there."""

    @property
    def said_end(self) -> bool:
        """Whether the guest's agent has said that the program's lines are over."""

    def next(self) -> Packet | None:
        """What came next, or nothing but the end that `said_end` tells of; None at the end of the
        connection.

        Raises OSError if something was lost on the way.
        """

    def refuse_others(self) -> None:
        """No further connections are accepted; idempotent."""

    def hang_up(self) -> None:
        """Takes nothing more in; `next` returns what has arrived and then None.  Idempotent."""

    def close(self) -> None:
        """Gives back what it holds; idempotent."""


@runtime_checkable
class CatchesUp(Protocol):
    """A source that can tell when all that was said has been taken in."""

    def catch_up(self, *, timeout_s: float) -> bool:
        """Whether `next` has returned all that the program had written when this was called, and
        was called again."""


class PacketSource(PacketSocket):
    """Packets that begin with the instant at which the guest wrote them."""

    def __init__(self) -> None:
        super().__init__(_PACKET_MAX)

    def next(self) -> Packet | None:
        """The next packet, stamped where it was written."""
        raw, _ = self.receive()
        return Packet(int.from_bytes(raw[:8], "little"), raw[8:]) if raw else None


class StreamSource:
    """Lines on a connected stream socket."""

    connected = True

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""
        self.said_end = False

    def next(self) -> Packet | None:
        """The next whole lines, with the instant of their receipt.

        What was not finished was not said.  Only of a line that would not be read to its end
        pieces are passed on, so that the reader sees that it is no line.
        """
        while data := self._receive():
            instant = time.monotonic_ns()
            whole, end, self._rest = (self._rest + data).rpartition(b"\n")
            ended = self.said_end
            said = self._without_ends(whole + end)
            if len(self._rest) > _UNFINISHED_MAX:
                said, self._rest = said + self._rest, b""
            if said or self.said_end != ended:
                return Packet(instant, said)
        return None

    def refuse_others(self) -> None:
        """There are no others."""

    def hang_up(self) -> None:
        shut_down(self._connection)

    def close(self) -> None:
        self._connection.close()

    def _receive(self) -> bytes:
        try:
            return self._connection.recv(_RECEIVE_BYTES)
        except ConnectionError:
            # The other end was killed.  What it had sent was delivered before this error.
            return b""

    def _without_ends(self, said: bytes) -> bytes:
        """The lines of programs; the agent's own are gone, and remembered."""
        if END_OF_LINES not in said:
            return said
        lines = said.split(b"\n")
        kept = [line for line in lines if line != b"\0"]
        self.said_end = self.said_end or len(kept) < len(lines)
        return b"\n".join(kept)
