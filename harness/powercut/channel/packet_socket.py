# SPDX-License-Identifier: Apache-2.0
"""One end of a pair of sockets that carries whole packets, each of them one write."""

from __future__ import annotations

import errno
import socket
from typing import Final

from powercut.channel.listener import shut_down

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

    def receive(self) -> tuple[bytes, list[tuple[int, int, bytes]]]:
        """The next packet and its control messages; nothing of both at the end.

        Raises OSError if a packet was longer than what is taken.
        """
        raw, control, flags, _ = self._ours.recvmsg(self._packet_max, _CONTROL_BYTES)
        if flags & socket.MSG_TRUNC:
            raise OSError(errno.EMSGSIZE, f"a packet of more than {self._packet_max} bytes")
        return raw, control

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
