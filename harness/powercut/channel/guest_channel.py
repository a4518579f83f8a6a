# SPDX-License-Identifier: Apache-2.0
"""The channel over a stream socket: a unix socket that QEMU connects to, or TCP.

One thread does nothing but receive: it stamps what arrives, appends it to the history
file, and only then makes it visible to waiters.  So the stamp of a claim is as early
as this process can make it, and never earlier than the claim.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from powercut.channel.history_file import HistoryWriter
from powercut.channel.ledger import Ledger
from powercut.channel.listener import listen_tcp, listen_unix, prepare, shut_down
from powercut.channel.pinger import Pinger
from powercut.channel.port import CommandResult, GuestFailed
from powercut.channel.wire import Decoder, Message, MessageType, command_payload, encode
from powercut.closing import Closing
from powercut.model.binding import NOT_BOUND
from powercut.model.errors import DeadlineExceeded, HostError, PowercutError
from powercut.model.history import History
from powercut.model.latency import LatencyHistogram

_RECEIVE_BYTES: Final = 1 << 18
_CLOSE_TIMEOUT_S: Final = 10
_SUCCESSOR_S: Final = 1.0
"""How long a connection that ended before the guest spoke may be followed by another."""
_POLL_S: Final = 0.1


class _NobodyThere(GuestFailed):
    """The other end went before the guest spoke; it may have a successor."""


class GuestChannel(Closing):
    """`channel.port.Channel` over the first connection to `listener` on which a guest speaks.

    The guest's side connects; so the listener must be there before the machine is
    started.  Use `on_unix` or `on_tcp`.
    """

    def __init__(
        self,
        listener: socket.socket,
        *,
        path: Path | None = None,
        history_file: Path | None = None,
        digest: bytes = NOT_BOUND,
    ) -> None:
        self._listener = listener
        self._path = path
        self.address: Path | tuple[str, int] = path or listener.getsockname()[:2]
        self._writer = HistoryWriter(history_file, digest) if history_file else None
        self._connection: socket.socket | None = None
        self._changed = threading.Condition()
        self._ledger = Ledger()
        self._decoder = Decoder()
        self._fault: PowercutError | None = None
        self._ended = False
        self._closing = False
        self._heard = False
        self._lost_at: float | None = None
        self._last_id = 0
        self._forgotten = 0
        self._started: int | None = None
        self._verbs: dict[int, str] = {}
        self._sending = threading.Lock()
        self._pinger: Pinger | None = None
        self._reader = threading.Thread(target=self._receive, name="channel", daemon=True)
        self._reader.start()

    @classmethod
    def on_unix(
        cls, path: Path, *, history_file: Path | None = None, digest: bytes = NOT_BOUND
    ) -> Self:
        """Listens on a new unix socket; the path goes when the channel is closed.

        `digest` binds the history to its recording.
        """
        listener = listen_unix(path)
        try:
            return cls(listener, path=path, history_file=history_file, digest=digest)
        except BaseException:
            listener.close()
            path.unlink(missing_ok=True)
            raise

    @classmethod
    def on_tcp(
        cls, host: str = "127.0.0.1", port: int = 0, *, history_file: Path | None = None
    ) -> Self:
        """Listens on TCP; port 0 takes a free one (see `address`)."""
        listener = listen_tcp(host, port)
        try:
            return cls(listener, history_file=history_file)
        except BaseException:
            listener.close()
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
        self._pinger = Pinger(self._send_ping, self._changed, lambda: self._ledger.pongs)
        self._pinger.start()

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
                raise GuestFailed(f"{self._verbs[started]} ended before it was ready")

        if not self._wait(ready, ended, deadline):
            raise DeadlineExceeded(f"the workload was not ready within {timeout_s:g} s")

    def wait_acks(self, lsn: int, *, timeout_s: float) -> bool:
        """True once a record of at least `lsn` was acknowledged.

        False if that did not happen in time, or cannot happen since the workload has
        ended in order.  With an LSN that is never reached this watches the workload
        for `timeout_s`: GuestFailed is raised at once if it stops.
        """
        ended_in_order = False

        def reached() -> bool:
            nonlocal ended_in_order
            ended_in_order = self._started in self._ledger.results and not self._failure()
            return self._ledger.acked >= lsn or ended_in_order

        self._wait(reached, self._raise_if_failed, time.monotonic() + timeout_s)
        with self._changed:
            return self._ledger.acked >= lsn

    def wait_done(self, *, timeout_s: float) -> CommandResult:
        """Waits until the workload that was started ends by itself."""
        return self._wait_result(self._require_started(), time.monotonic() + timeout_s)

    def drain(self, *, timeout_s: float) -> History:
        """Reads to the end of the stream and returns everything that was received.

        For after the cut.  Raises DeadlineExceeded if the other end is still open, and
        DamagedRecording if anything but an unfinished last message did not decode.
        """
        with self._changed:
            # Nobody may connect any more.  A connection accepted just now is read to its end.
            shut_down(self._listener)
        self._reader.join(timeout_s)
        if self._reader.is_alive():
            raise DeadlineExceeded(
                f"the guest's channel was still open after {timeout_s:g} s",
                hint="a channel is drained after the machine was killed",
            )
        with self._changed:
            if self._fault:
                raise self._fault
            return self._ledger.history()

    @property
    def latency(self) -> LatencyHistogram | None:
        """The last commit latencies that the workload reported."""
        with self._changed:
            return self._ledger.latency

    @property
    def acked(self) -> int:
        """Highest LSN acknowledged so far; 0 if none."""
        with self._changed:
            return self._ledger.acked

    def close(self) -> None:
        """Hangs up; idempotent.  What was received so far stays in the history file."""
        self._closing = True
        shut_down(self._listener)
        with self._changed:
            connection = self._connection
        if connection:
            shut_down(connection)
        if self._pinger:
            self._pinger.stop()
        self._reader.join(_CLOSE_TIMEOUT_S)
        self._listener.close()
        if self._connection:
            self._connection.close()
        if self._path:
            self._path.unlink(missing_ok=True)

    # The thread that receives

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
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _receive_from_first_that_speaks(self) -> bool:
        """True if the guest's side was read to its end.

        A hypervisor that ended before its guest said anything may have a successor: a
        machine that could not be restored from a template is booted instead.
        """
        at_end = False
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return at_end  # closed by us
            prepare(connection)
            with self._changed:
                self._connection = connection
                self._lost_at = None
                self._changed.notify_all()
            at_end = self._receive_all(connection)
            if self._heard or self._closing:
                return at_end
            with self._changed:
                self._connection = None
                self._lost_at = time.monotonic()
                self._forgotten = self._last_id  # nobody will answer these commands
                self._changed.notify_all()
            connection.close()

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
                return not self._closing  # hanging up ourselves is not the guest's end
            self._heard = True
            self._record(data, at_ns)
            with self._changed:
                self._take(data, at_ns)
                self._changed.notify_all()

    def _take(self, data: bytes, at_ns: int) -> None:
        if self._fault:
            return
        try:
            for message in self._decoder.feed(data):
                self._ledger.apply(message, at_ns)
        except PowercutError as error:
            self._fault = error

    def _record(self, data: bytes, at_ns: int) -> None:
        if self._writer is None:
            return
        try:
            self._writer.append(at_ns, data)
        except OSError as error:
            self._cannot_record(error)

    def _cannot_record(self, error: OSError) -> None:
        with self._changed:
            self._fault = self._fault or HostError(
                f"cannot record the guest's history: {error.strerror}",
                hint="free some space; without the history nothing can be judged",
            )

    # What waiters share

    def _wait(self, done: Callable[[], bool], check: Callable[[], None], deadline: float) -> bool:
        """True once `done`; False at the deadline.  `check` may raise in between."""
        with self._changed:
            while not done():
                check()
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    return False
                self._changed.wait(remaining if self._lost_at is None else min(remaining, _POLL_S))
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
        if self._fault:
            raise self._fault
        if self._ended or (self._lost_at and time.monotonic() - self._lost_at > _SUCCESSOR_S):
            errors = "; ".join(self._ledger.current.errors)
            raise GuestFailed(
                f"the connection to the guest ended{': ' + errors if errors else ''}",
                hint="the guest's console and the machine's diagnosis say more",
            )

    def _raise_if_failed(self) -> None:
        failure = self._failure()
        if failure and not self._fault:
            raise GuestFailed(f"the workload failed: {failure}")
        self._raise_if_lost()

    def _require_started(self) -> int:
        if self._started is None:
            raise GuestFailed("no workload was started on this channel")
        return self._started

    def _wait_connected(self, deadline: float, purpose: str) -> None:
        def connected() -> bool:
            return self._connection is not None

        if not self._wait(connected, self._raise_if_lost, deadline):
            raise DeadlineExceeded(
                f"nobody connected to the guest's channel in time for {purpose}",
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

    def _send_ping(self, number: int) -> bool:
        """False if nobody can be pinged any more."""
        with self._changed:
            connection = self._connection
            if connection is None or self._ended or self._closing:
                return False
        try:
            with self._sending:
                ping = Message(MessageType.PING, lsn=number, value=time.monotonic_ns())
                connection.sendall(encode(ping))
        except OSError:
            return False  # the receiving thread notices, too, and tells who waits
        return True

    def _send_command(self, *argv: str) -> int:
        payload = command_payload(argv)
        with self._changed:
            self._raise_if_lost()
            if self._connection is None:
                raise GuestFailed("no guest is connected yet; wait for its hello first")
            self._last_id += 1
            command = self._last_id
            self._verbs[command] = " ".join(argv[:2])
            connection = self._connection
        message = Message(
            MessageType.COMMAND, lsn=command, guest_ns=time.monotonic_ns(), payload=payload
        )
        try:
            with self._sending:
                connection.sendall(encode(message))
        except OSError as error:
            gone = not self._heard and isinstance(error, ConnectionError)
            raise (_NobodyThere if gone else GuestFailed)(
                f"cannot send '{argv[0]}' to the guest: {error.strerror or error}"
            ) from None
        return command
