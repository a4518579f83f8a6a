# SPDX-License-Identifier: Apache-2.0
"""The channel over a unix socket, which QEMU connects to.

What arrives is taken by a thread of its own (Receiver).  Here commands are sent, and those who wait
are told when what they wait for has come, or can no longer come.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from powercut.channel.history_file import HistoryWriter
from powercut.channel.ledger import Ledger
from powercut.channel.listener import listen_unix, prepare, shut_down
from powercut.channel.pinger import Pinger
from powercut.channel.port import CommandResult, EndedEarly, GuestFailed
from powercut.channel.wire import Decoder, Message, MessageType, command_payload, encode
from powercut.closing import Closing
from powercut.model.binding import NOT_BOUND
from powercut.model.errors import DeadlineExceeded, HostError, PowercutError
from powercut.model.history import History, LatencyHistogram

_CLOSE_TIMEOUT_S: Final = 10
_SUCCESSOR_S: Final = 1.0
"""How long a connection that ended before the guest spoke may be followed by another."""
_POLL_S: Final = 0.1


class _NobodyThere(GuestFailed):
    """The other end went before the guest spoke; it may have a successor."""


class GuestChannel(Closing):
    """`channel.port.Channel` over the first connection to `listener` on which a guest speaks.

    The guest's side connects; so the listener must be there before the machine is
    started.  Use `on_unix`.
    """

    def __init__(
        self,
        listener: socket.socket,
        path: Path,
        *,
        history_file: Path | None = None,
        digest: bytes = NOT_BOUND,
    ) -> None:
        self.address = path
        self._last_id = 0
        self._forgotten = 0
        self._started: int | None = None
        self._verbs: dict[int, str] = {}
        self._sending = threading.Lock()
        self._pinger: Pinger | None = None
        writer = HistoryWriter(history_file, digest) if history_file else None
        self._receiver = Receiver(listener, writer, self._forget_commands)
        self._changed, self._ledger = self._receiver.changed, self._receiver.ledger
        self._receiver.start()

    @classmethod
    def on_unix(
        cls, path: Path, *, history_file: Path | None = None, digest: bytes = NOT_BOUND
    ) -> Self:
        """Listens on a new unix socket; the path goes when the channel is closed.

        `digest` binds the history to its recording.
        """
        listener = listen_unix(path)
        try:
            return cls(listener, path, history_file=history_file, digest=digest)
        except BaseException:
            listener.close()
            path.unlink(missing_ok=True)
            raise

    # What the port promises

    def wait_hello(self, *, timeout_s: float) -> dict[str, str]:
        """Asks the agent who it is and returns its answer.

        It is asked, rather than awaited, because a guest that was restored from a
        template has said its hello long ago.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            self._wait_connected(deadline, "hello")
            with contextlib.suppress(_NobodyThere):  # asked of a machine that had just gone
                self._wait_result(self._send_command("hello"), deadline)
                break
        with self._changed:
            if self._ledger.hello is None:
                raise GuestFailed("the guest's agent answered, but did not say who it is")
            return dict(self._ledger.hello)

    def run(self, *argv: str, timeout_s: float) -> CommandResult:
        """Runs a command of the agent's and waits for its end.

        A command that fails is a result, not an exception.
        """
        deadline = time.monotonic() + timeout_s
        self._wait_connected(deadline, argv[0])
        return self._wait_result(self._send_command(*argv), deadline)

    def start(self, *argv: str) -> None:
        """Starts a command that runs until the cut.  Every command before it must have ended."""
        with self._changed:
            ended = self._ledger.results
            for command in range(self._forgotten + 1, self._last_id + 1):
                if command not in ended:
                    raise GuestFailed(
                        f"cannot start {argv[0]}: {self._verbs[command]} has not ended yet"
                    )
        self._started = self._send_command(*argv)

    def keep_time(self) -> None:
        """From now until the end, pings the guest: its clock is told from ours by the answers.

        To be called once, when the guest has said hello.
        """
        ledger = self._ledger
        # A ping may go under with the hypervisor that its guest leaves.
        self._pinger = Pinger(
            self._send_ping, self._changed, lambda: ledger.pongs + ledger.handovers
        )
        self._pinger.start()

    def expect_handover(self, *, restarts: bool = False) -> None:
        """The guest is about to move to another hypervisor, which connects as the first one did; or
        it `restarts`, and is heard on a new connection."""
        self._receiver.expect_handover(restarts=restarts)

    def hand_over(self, stopped_ns: int, *, timeout_s: float) -> int:
        """The guest has moved; it stood still at `stopped_ns`.  Returns once it is heard there:
        connected, and where its time is kept, a ping was answered.  As the port says."""
        before, deadline = self._ledger.handovers, time.monotonic() + timeout_s
        self._receiver.hand_over(stopped_ns)

        def heard() -> bool:
            there = self._receiver.connection is not None and self._ledger.handovers > before
            return there and (self._pinger is None or self._ledger.pongs_since_handover > 0)

        if not self._wait(heard, self._raise_if_lost, deadline):
            raise DeadlineExceeded("the guest was not heard in the hypervisor to which it moved")
        with self._changed:
            if self._ledger.restarted:
                self._forget_commands()
        return self._ledger.acks_before_handover

    def wait_ready(self, *, timeout_s: float) -> None:
        """Returns once the workload that was started has opened its log."""
        deadline = time.monotonic() + timeout_s
        started = self._require_started()

        def ready() -> bool:
            ledger = self._ledger
            return started in ledger.was_ready or (
                started not in ledger.results and ledger.current.ready
            )

        def ended() -> None:
            self._raise_if_failed()
            if started in self._ledger.results:
                raise EndedEarly(f"{self._verbs[started]} ended before it was ready")

        if not self._wait(ready, ended, deadline):
            raise DeadlineExceeded(f"the workload was not ready within {timeout_s:g} s")

    def wait_acks(self, count: int, *, timeout_s: float) -> bool:
        """True once a record of at least `count` was acknowledged.

        False if that did not happen in time, or cannot happen since the workload has
        ended in order.  With an LSN that is never reached this watches the workload
        for `timeout_s`: GuestFailed is raised at once if it stops.
        """
        ended_in_order = False

        def reached() -> bool:
            nonlocal ended_in_order
            ended_in_order = self._started in self._ledger.results and not self._failure()
            return self._ledger.acked >= count or ended_in_order

        self._wait(reached, self._raise_if_failed, time.monotonic() + timeout_s)
        with self._changed:
            return self._ledger.acked >= count

    def wait_done(self, *, timeout_s: float) -> CommandResult:
        """Waits until the workload that was started ends on its own."""
        return self._wait_result(self._require_started(), time.monotonic() + timeout_s)

    def drain(self, *, timeout_s: float) -> History:
        """Reads to the end of the stream and returns everything that was received.

        For after the cut.  Raises DeadlineExceeded if the other end is still open, and
        DamagedRecording if anything but an unfinished last message did not decode.
        """
        with self._changed:
            self._receiver.refuse_others()
        if not self._receiver.wait_end(timeout_s):
            raise DeadlineExceeded(
                f"the guest's channel was still open after {timeout_s:g} s",
                hint="a channel is drained after the machine was killed",
            )
        with self._changed:
            if self._receiver.fault:
                raise self._receiver.fault
            return self._ledger.history()

    @property
    def latency(self) -> LatencyHistogram | None:
        """The last commit latencies that the workload reported."""
        with self._changed:
            return self._ledger.latency

    @property
    def acked(self) -> int:
        with self._changed:
            return self._ledger.acked

    def close(self) -> None:
        """Hangs up; idempotent.  What was received so far stays in the history file."""
        self._receiver.hang_up()
        if self._pinger:
            self._pinger.stop()
        self._receiver.wait_end(_CLOSE_TIMEOUT_S)
        self._receiver.close()
        self.address.unlink(missing_ok=True)

    # What waiters share

    def _wait(self, done: Callable[[], bool], check: Callable[[], None], deadline: float) -> bool:
        """True once `done`; False at the deadline.  `check` may raise in between."""
        with self._changed:
            while not done():
                check()
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    return False
                lost = self._receiver.lost_at is not None
                self._changed.wait(min(remaining, _POLL_S) if lost else remaining)
            return True

    def _failure(self) -> str:
        """Why the workload will make no more progress; empty if it may."""
        errors = self._ledger.current.errors
        if errors:
            return "; ".join(errors)
        result = self._ledger.results.get(self._started) if self._started else None
        if result and (result.status or result.error):
            return result.error or f"the workload ended with status {result.status}"
        return ""

    def _raise_if_lost(self) -> None:
        receiver = self._receiver
        if receiver.fault:
            raise receiver.fault
        lost_at = receiver.lost_at
        if receiver.ended or (lost_at and time.monotonic() - lost_at > _SUCCESSOR_S):
            errors = "; ".join(self._ledger.current.errors)
            raise GuestFailed(
                f"the connection to the guest ended{': ' + errors if errors else ''}",
                hint="the guest's console and the machine's diagnosis say more",
            )

    def _raise_if_failed(self) -> None:
        failure = self._failure()
        if failure and not self._receiver.fault:
            raise GuestFailed(f"the workload failed: {failure}")
        self._raise_if_lost()

    def _require_started(self) -> int:
        if self._started is None:
            raise GuestFailed("no workload was started on this channel")
        return self._started

    def _wait_connected(self, deadline: float, purpose: str) -> None:
        def connected() -> bool:
            return self._receiver.connection is not None

        if not self._wait(connected, self._raise_if_lost, deadline):
            raise DeadlineExceeded(
                f"the guest's channel was not opened in time for {purpose}",
                hint="the machine has not started; its diagnosis says why",
            )

    def _wait_result(self, command: int, deadline: float) -> CommandResult:
        began = time.monotonic()

        def ended() -> bool:
            return command in self._ledger.results

        def check() -> None:
            self._raise_if_lost()
            if command <= self._forgotten:
                raise _NobodyThere(
                    f"the machine ended before its guest took '{self._verbs[command]}'"
                )

        if not self._wait(ended, check, deadline):
            raise DeadlineExceeded(
                f"the guest did not finish '{self._verbs[command]}'"
                f" within {deadline - began:.3g} s",
                hint="the guest's console may say why",
            )
        with self._changed:
            return self._ledger.results[command]

    def _forget_commands(self) -> None:
        """No answer will come to what was sent so far: a machine ended before its guest spoke."""
        self._forgotten = self._last_id

    def _send_ping(self, number: int) -> bool:
        """False if there is no guest to ping any more."""
        receiver = self._receiver
        with self._changed:
            self._changed.wait_for(
                lambda: receiver.connection is not None or receiver.ended or receiver.closing
            )
            connection = receiver.connection
            if connection is None or receiver.ended or receiver.closing:
                return False
        try:
            with self._sending:
                ping = Message(MessageType.PING, lsn=number, value=time.monotonic_ns())
                connection.sendall(encode(ping))
        except OSError:
            # The receiving thread notices, too, and tells who waits.
            return receiver.moving or receiver.connection is not connection
        return True

    def _send_command(self, *argv: str) -> int:
        payload = command_payload(argv)
        with self._changed:
            self._raise_if_lost()
            connection = self._receiver.connection
            if connection is None:
                raise GuestFailed("no guest is connected yet; wait for its hello first")
            self._last_id += 1
            command = self._last_id
            self._verbs[command] = " ".join(argv[:2])
        message = Message(
            MessageType.COMMAND, lsn=command, guest_ns=time.monotonic_ns(), payload=payload
        )
        try:
            with self._sending:
                connection.sendall(encode(message))
        except OSError as error:
            # Closed already, by the thread that saw its end, or about to be.
            ended = isinstance(error, ConnectionError) or error.errno == errno.EBADF
            gone = ended and not self._receiver.spoke
            raise (_NobodyThere if gone else GuestFailed)(
                f"cannot send '{argv[0]}' to the guest: {error.strerror or error}"
            ) from None
        return command


# The side of a channel that listens: one thread that does nothing but receive.
#
# It stamps what arrives, appends it to the history file, and only then makes it visible to
# waiters.  So the stamp of a claim is as early as this process can make it, and never earlier
# than the claim.

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
