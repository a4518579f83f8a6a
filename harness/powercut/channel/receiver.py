# SPDX-License-Identifier: Apache-2.0
"""The side of a channel that listens: one thread that does nothing but receive.

It stamps what arrives, appends it to the history file, and only then makes it visible to
waiters.  So the stamp of a claim is as early as this process can make it, and never earlier
than the claim.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Final

from powercut.channel.history_file import HistoryWriter
from powercut.channel.ledger import Ledger
from powercut.channel.listener import prepare, shut_down
from powercut.channel.wire import Decoder
from powercut.model.errors import HostError, PowercutError

_RECEIVE_BYTES: Final = 1 << 18


class Receiver:
    """Receives on the first connection to `listener` on which the guest's side speaks.

    A hypervisor that ended before its guest said anything may have a successor: a machine that
    could not be restored from a template is booted instead.  `on_silent_end` is called, with
    `changed` held, when a connection has ended so.

    A guest that moves to another hypervisor has a successor, too (`expect_handover`): the messages
    go on where they broke off, in the midst of one if need be.  A guest that is restarted connects
    anew, too, and what it was about to say is never said.

    `changed` guards all other attributes, and is notified when one has changed.
    """

    def __init__(
        self,
        listener: socket.socket,
        writer: HistoryWriter | None,
        on_silent_end: Callable[[], None],
    ) -> None:
        self.changed = threading.Condition()
        self.ledger = Ledger()
        self.connection: socket.socket | None = None
        self.fault: PowercutError | None = None
        """Why what was received cannot be believed, or could not be kept."""
        self.spoke = False
        self.lost_at: float | None = None
        """When a connection ended before the guest spoke (time.monotonic), until the next."""
        self.ended = False
        self.closing = False
        self.moving = False
        """Whether the end of the connection is that of a hypervisor, and not of its guest."""
        self._restarts = False
        self._stopped_ns: int | None = None
        self._refusing = False
        self._listener = listener
        self._writer = writer
        self._on_silent_end = on_silent_end
        self._decoder = Decoder()
        self._thread = threading.Thread(target=self._receive, name="channel", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def expect_handover(self, *, restarts: bool) -> None:
        """The connection's end is not the guest's: it continues on the next, once it is told so.
        If the guest `restarts`, it begins anew there."""
        with self.changed:
            self.moving, self._restarts = True, restarts
            self._stopped_ns = None

    def hand_over(self, stopped_ns: int) -> None:
        """The guest is in the next hypervisor, and the one before is gone.

        `stopped_ns`: an instant (CLOCK_MONOTONIC) at which it stood still in the one before.
        """
        with self.changed:
            self._stopped_ns = stopped_ns
            self.changed.notify_all()

    def refuse_others(self) -> None:
        """No further connection is accepted.  One accepted just now is read to its end."""
        with self.changed:
            self._refusing, moving = True, self.moving
            self.changed.notify_all()
        if not moving:  # else one may have connected, and has to be heard
            shut_down(self._listener)

    def hang_up(self) -> None:
        """Ends the connection from this side; idempotent."""
        self.closing = True
        shut_down(self._listener)
        with self.changed:
            self.changed.notify_all()
            connection = self.connection
        if connection:
            shut_down(connection)

    def wait_end(self, timeout_s: float) -> bool:
        """Whether everything was received, and the thread has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def close(self) -> None:
        """Gives the sockets back; to be called last."""
        self._listener.close()
        if self.connection:
            self.connection.close()

    def _receive(self) -> None:
        at_end = self._receive_from_first_that_speaks()
        shut_down(self._listener)
        if self._writer:
            if at_end:
                self._record(b"", time.monotonic_ns())
            try:
                self._writer.close()
            except OSError as error:
                self._cannot_record(error)
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def _receive_from_first_that_speaks(self) -> bool:
        """True if the guest's side was read to its end."""
        at_end = False
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return at_end  # closed by us
            prepare(connection)
            with self.changed:
                self.connection = connection
                self.lost_at = None
                self.changed.notify_all()
            at_end = self._receive_all(connection)
            if self._handed_over():
                connection.close()
                continue
            if self.connection is None:
                connection.close()
            if self.spoke or self.closing:
                return at_end
            with self.changed:
                self.connection = None
                self.lost_at = time.monotonic()
                self._on_silent_end()
                self.changed.notify_all()
            connection.close()

    def _handed_over(self) -> bool:
        """Whether another hypervisor may go on with the guest: waits until that is known.

        If the power goes meanwhile, both are gone, and the guest may have run in either.
        """
        with self.changed:
            if not self.moving:
                return False
            self.connection = None
            self.changed.wait_for(
                lambda: self._stopped_ns is not None or self._refusing or self.closing
            )
            if self.closing:
                return False
            stopped_ns = self._stopped_ns or time.monotonic_ns()
            self.moving = False
            if self._refusing:
                self._listener.setblocking(False)
            self.ledger.hand_over(stopped_ns, restarted=self._restarts)
            if self._restarts:
                self._decoder = Decoder()
            self.changed.notify_all()
        if self._writer is not None:
            try:
                self._writer.hand_over(stopped_ns, restarted=self._restarts)
            except OSError as error:
                self._cannot_record(error)
        return True

    def _receive_all(self, connection: socket.socket) -> bool:
        while True:
            try:
                data = connection.recv(_RECEIVE_BYTES)
            except OSError:
                # Reset: the other end was killed with commands unread.  What it had
                # sent was delivered before this error (unix(7), tcp(7) sockets alike).
                data = b""
            at_ns = time.monotonic_ns()
            if not data:
                return not self.closing  # hanging up ourselves is not the guest's end
            self.spoke = True
            self._record(data, at_ns)
            with self.changed:
                self._take(data, at_ns)
                self.changed.notify_all()

    def _take(self, data: bytes, at_ns: int) -> None:
        if self.fault:
            return
        try:
            for message in self._decoder.feed(data):
                self.ledger.apply(message, at_ns)
        except PowercutError as error:
            self.fault = error

    def _record(self, data: bytes, at_ns: int) -> None:
        if self._writer is None:
            return
        try:
            self._writer.append(at_ns, data)
        except OSError as error:
            self._cannot_record(error)

    def _cannot_record(self, error: OSError) -> None:
        with self.changed:
            self.fault = self.fault or HostError(
                f"cannot record the guest's history: {error.strerror}",
                hint="free some space; without the history nothing can be judged",
            )
