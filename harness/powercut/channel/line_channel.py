# SPDX-License-Identifier: Apache-2.0
"""The acks of a program that says lines, whatever they come on; each is kept, then counted.

A connection alone does not say how a program ended: its starter tells (`watch`).
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from powercut.channel.line_sources import CatchesUp, LineSource, StreamSource
from powercut.channel.lines import END_OF_LINES, GUEST_PORT, LineCounter, header, pack
from powercut.channel.listener import connect_unix, shut_down
from powercut.channel.pinger import Pinger
from powercut.channel.port import EndedEarly, GuestFailed
from powercut.channel.wire import Decoder, Message, MessageType, encode
from powercut.closing import Closing
from powercut.model.binding import Binding
from powercut.model.errors import DeadlineExceeded, HostError
from powercut.model.operations import Packet, Pressed

_KEPT_MAX: Final = 256 << 20
_CLOSE_S: Final = 20.0
_HEAR_OUT_S: Final = 20.0
_WATCH_S: Final = 0.02
"""How often the starter of the program is asked whether it has ended."""


class LineChannel(Closing):
    """`channel.port.Acks` by lines.  `acked` counts acks, each of an operation.

    What arrives is appended to `file` (powercut.channel.lines) before it counts.  The source is
    closed with the channel, or at once if the file cannot be made.
    """

    def __init__(self, source: LineSource, file: Path, binding: Binding) -> None:
        self.watch: Callable[[], bool] | None = None
        """Whether the program has ended in order; raises PowercutError if it has failed.

        It is not asked again once it has said so.
        """
        self._source = source
        self._counter = LineCounter()
        self._changed = threading.Condition()
        self._heard_s = time.monotonic()
        self._ended = False
        self._over = False
        self._said_end = False
        self._failure: Exception | None = None
        self._size = 0
        try:
            self._file = file.open("xb")
            self._file.write(header(binding))
        except OSError as error:
            source.close()
            raise HostError(f"cannot keep lines in {file}: {error.strerror}") from error
        self._thread = threading.Thread(target=self._receive, name="lines", daemon=True)
        self._thread.start()

    @classmethod
    def on_port(cls, path: Path, file: Path, binding: Binding) -> Self:
        """Connects to the port for lines of a machine that runs.  Raises HostError."""
        return cls(StreamSource(connect_unix(path, GUEST_PORT)), file, binding)

    @classmethod
    def on_guest(cls, path: Path, file: Path, binding: Binding) -> Self:
        """The same, of one whose agent stamps its program's lines."""
        return cls(GuestSource(connect_unix(path, GUEST_PORT)), file, binding)

    # What the port promises

    @property
    def acked(self) -> int:
        with self._changed:
            return self._counter.acks

    @property
    def pressed(self) -> Pressed:
        """As `RunsVerbs`: what the agent on the other end has said of its kernel."""
        return self._source.pressed if isinstance(self._source, GuestSource) else Pressed()

    @property
    def said_end(self) -> bool:
        """Whether the program's side has said that its lines are over."""
        with self._changed:
            return self._said_end

    def wait_ready(self, *, timeout_s: float) -> None:
        """Returns once the program has said that it is ready, or has acknowledged something."""
        if not self._wait(lambda: self._counter.begun, time.monotonic() + timeout_s):
            if self._has_ended():
                raise EndedEarly("the program ended before it was ready")
            there = "was not ready" if self._source.connected else "has not connected"
            raise DeadlineExceeded(f"the program {there} within {timeout_s:g} s")

    def wait_acks(self, count: int, *, timeout_s: float) -> bool:
        """True once so many acks have come.

        False if they did not in time, or cannot since the program has ended in order.
        """
        return self._wait(lambda: self._counter.acks >= count, time.monotonic() + timeout_s)

    def catch_up(self, *, timeout_s: float) -> bool:
        """Whether all counts that the program had said when this was called, as far as its source
        can tell."""
        return isinstance(self._source, CatchesUp) and self._source.catch_up(timeout_s=timeout_s)

    def drain(self, *, timeout_s: float, quiet_s: float | None = None) -> None:
        """Receives to the end of the connection; all of it is in the file then.

        A machine at the other end of a network that has lost its power never closes anything:
        with `quiet_s`, silence of so many seconds is an end, too.  Raises DeadlineExceeded if the
        end did not come, HostError if a line could not be kept.
        """
        self._source.refuse_others()
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not self._ended and self._failure is None:
                quiet = float("inf") if quiet_s is None else self._heard_s + quiet_s
                now = time.monotonic()
                if now >= quiet:
                    self._source.hang_up()
                elif now >= deadline:
                    raise DeadlineExceeded(
                        f"the program's lines had no end {timeout_s:g} s after the cut",
                        hint="a channel is drained after the machine was killed",
                    )
                self._changed.wait(max(min(quiet, deadline) - now, _WATCH_S))
        self.require_kept()

    def close(self) -> None:
        """Hangs up; idempotent.  What was received so far is in the file."""
        self._source.hang_up()
        self._thread.join(_CLOSE_S)
        self._source.close()

    # What waiters share

    def _wait(self, done: Callable[[], bool], deadline: float) -> bool:
        """True once `done`; False at the deadline, or if the program has ended in order and what it
        had said is heard."""
        while True:
            with self._changed:
                if done():
                    return True
                over = self._ended
            self.require_kept()
            if self._has_ended():
                self.catch_up(timeout_s=min(max(deadline - time.monotonic(), 0), _HEAR_OUT_S))
                self.require_kept()
                with self._changed:
                    return done()
            if over:
                raise GuestFailed("the connection on which the program says its lines ended")
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            most = min(remaining, _WATCH_S) if self.watch else remaining
            with self._changed:
                if not done() and self._ended == over:
                    self._changed.wait(most)

    def _has_ended(self) -> bool:
        """In order, by what its starter or its guest's agent says."""
        if self.watch is None:
            return self.said_end
        self._over = self._over or self.watch()
        return self._over

    def require_kept(self) -> None:
        """Raises HostError, with the reason, if a line could not be kept."""
        if self._failure is not None:
            raise HostError(f"the program's lines could not be kept: {self._failure}")

    # The thread that receives

    def _receive(self) -> None:
        try:
            with self._file:
                while packet := self._source.next():
                    self._keep(packet)
                self._file.flush()
                os.fsync(self._file.fileno())
        except Exception as error:  # what is not kept from here on is missing, whatever it was
            with self._changed:
                self._failure = error
                self._changed.notify_all()
            self._hear_out()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _hear_out(self) -> None:
        """Receives and forgets: a guest that cannot say its lines stands still."""
        with suppress(OSError):
            while self._source.next():
                pass

    def _keep(self, packet: Packet) -> None:
        if packet.data or packet.sent_ns is not None:
            self._size += self._file.write(pack(packet))
        if self._size > _KEPT_MAX:
            raise OSError(errno.EFBIG, f"more than {_KEPT_MAX >> 20} MiB of lines")
        with self._changed:
            self._counter.take(packet.data)
            self._said_end = self._source.said_end
            self._heard_s = time.monotonic()
            self._changed.notify_all()
        if self._counter.too_much:
            raise OSError(errno.EFBIG, f"it said {self._counter.too_much}")


# Lines of a program in a virtual machine, each with the guest's clock (guests/agent/stamps.c).
#
# They come as messages of the wire format.  Pings go the other way on the same port; their answers
# tie the guest's clock to this host's, and are kept with the lines (powercut.channel.lines), so
# that the judge dates them from the evidence (powercut.workload.program.workload).

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
        shut_down(self._connection)

    def close(self) -> None:
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
