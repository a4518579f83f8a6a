# SPDX-License-Identifier: Apache-2.0
"""Lines of a program in a virtual machine, each with the guest's clock (guests/agent/stamps.c).

They come as messages of the wire format.  Pings go the other way on the same port; their answers
tie the guest's clock to this host's, and are kept with the lines (powercut.channel.lines), so that
the judge dates them from the evidence (powercut.workload.program.guest_clock).
"""

from __future__ import annotations

import errno
import socket
import struct
import threading
import time
from collections import deque
from typing import Final

from powercut.channel.lines import END_OF_LINES
from powercut.channel.listener import shut_down
from powercut.channel.pinger import Pinger
from powercut.channel.wire import Decoder, Message, MessageType, encode
from powercut.model.operations import Packet
from powercut.model.pressed import Pressed

_PRESSED: Final = struct.Struct("<QQ")
"""What such an answer holds (guests/common/press.h)."""

_RECEIVE_BYTES: Final = 1 << 18
_CATCHING_UP: Final = 1 << 32
"""Pings from this number on ask whether all lines have come; others only for the time."""


class GuestSource:
    """`LineSource` for the port of a guest that stamps its program's lines."""

    connected = True

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._decoder = Decoder()
        self._arrived: deque[tuple[Packet, Message]] = deque()
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._answers = 0
        self._caught_up = _CATCHING_UP
        self._asked = _CATCHING_UP
        self._over = False
        self.said_end = False
        self.pressed = Pressed()
        self._pinger = Pinger(self._ping, self._changed, lambda: self._answers)
        self._pinger.start()

    def next(self) -> Packet | None:
        """What came next: lines, or the answer to a ping, which holds none."""
        while not self._arrived:
            try:
                data = self._connection.recv(_RECEIVE_BYTES)
            except ConnectionError:  # the other end was killed: what it had sent has come
                data = b""
            at_ns = time.monotonic_ns()
            if not data:
                self._end()
                return None
            for message in self._decoder.feed(data):
                self._arrived.append((_packet_of(message, at_ns), message))
        packet, message = self._arrived.popleft()
        if message.type is MessageType.PONG:
            with self._changed:
                self._answers += 1
                self.pressed = _pressed_of(message)
                if message.lsn > _CATCHING_UP:
                    self._caught_up = max(self._caught_up, message.lsn)
                self._changed.notify_all()
        elif _is_end(message):
            self.said_end = True
        return packet

    def catch_up(self, *, timeout_s: float) -> bool:
        """As `CatchesUp`: the agent's answer comes behind the lines, and so does their end."""
        if self.said_end:
            return True
        self._asked += 1
        asked = self._asked
        if not self._ping(asked):
            return False

        def answered() -> bool:
            return self._over or self._caught_up >= asked

        with self._changed:
            self._changed.wait_for(answered, timeout_s)
            return self._caught_up >= asked

    def refuse_others(self) -> None:
        """There are no others."""

    def hang_up(self) -> None:
        """Nothing more comes in."""
        shut_down(self._connection)

    def close(self) -> None:
        """Closes the connection."""
        self.hang_up()
        self._pinger.stop()
        self._connection.close()

    def _end(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def _ping(self, number: int) -> bool:
        """False if there is no answer any more."""
        if self._over or self.said_end:
            return False
        ping = Message(MessageType.PING, lsn=number, value=time.monotonic_ns())
        try:
            with self._sending:
                self._connection.sendall(encode(ping))
        except OSError:
            return False
        return True


def _is_end(message: Message) -> bool:
    return message.value == 0 and message.payload == END_OF_LINES


def _pressed_of(message: Message) -> Pressed:
    if len(message.payload) != _PRESSED.size:
        raise OSError(errno.EPROTO, f"an answer to a ping with {len(message.payload)} bytes")
    return Pressed(*_PRESSED.unpack(message.payload))


def _packet_of(message: Message, at_ns: int) -> Packet:
    if message.type is MessageType.PONG:
        return Packet(at_ns, b"", guest_ns=message.guest_ns, sent_ns=message.value)
    if message.type is not MessageType.LINES:
        raise OSError(errno.EPROTO, f"a message of type {message.type.name} among the lines")
    data = b"" if _is_end(message) else message.payload
    return Packet(at_ns, data, guest_ns=message.value)
