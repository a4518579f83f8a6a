# SPDX-License-Identifier: Apache-2.0
"""One end of a pair of sockets that carries whole packets, each of them one write."""

from __future__ import annotations

import errno
import os
import select
import socket
import threading
import time
from typing import Final

from powercut.channel.listener import shut_down

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
        """Nothing more comes in."""
        self.theirs.close()
        shut_down(self._ours)

    def close(self) -> None:
        """Closes both ends."""
        self.theirs.close()
        self._ours.close()
