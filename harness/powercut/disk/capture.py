# SPDX-License-Identifier: Apache-2.0
"""The capture disk: nbdkit with the plugin of harness/capture, as a `Disk`.

The disk is controlled over a socket pair of which nbdkit inherits one end.  It greets
when it serves, so no wait is needed until it is ready; and it shuts down, closes its log in
order and removes its socket when the other end goes away, so a controller that is
killed leaves nothing behind.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Protocol, Self

from powercut.closing import Closing
from powercut.disk.capture_config import (
    CaptureConfig,
    capture_argv,
    capture_environment,
    hangup_library,
)
from powercut.model.contract import CutPolicy
from powercut.model.errors import DeadlineExceeded, HostError, UsageError
from powercut.model.printable import parse_json
from powercut.model.units import Instant
from powercut.sandbox.printed import end_of, printed
from powercut.sandbox.users import HostView, serving

_CONTROL_S: Final = 30.0
"""For commands that a disk answers at once unless its host is in trouble."""

_START_S: Final = 20.0
_CLOSE_S: Final = 20.0
_SOCKET_PATH_MAX: Final = 107


class CaptureDisk(Closing):
    """A running capture disk.  Enter the context to start it; leave it to close it in order."""

    def __init__(self, config: CaptureConfig, *, timeout_s: float = _START_S) -> None:
        """`timeout_s` is for the start.  Nothing is started yet."""
        self._config = config
        self._start_timeout_s = timeout_s
        self._nbdkit: _Nbdkit | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        """Starts nbdkit and returns when it serves.

        Raises HostError with its command line and output if it does not.
        """
        if self._nbdkit is not None:
            raise RuntimeError("the capture disk was started before")
        for built in (self._config.plugin, hangup_library(self._config)):
            if not built.exists():
                raise HostError(
                    f"the capture disk is not built: no {built}", hint="make -C harness/capture"
                )
        self._nbdkit = _Nbdkit(self._config, timeout_s=self._start_timeout_s)

    @property
    def _running(self) -> _Nbdkit:
        if self._nbdkit is None:
            raise RuntimeError("the capture disk is not running")
        return self._nbdkit

    @property
    def socket(self) -> Path:
        return self._running.directory / "nbd"

    @property
    def size(self) -> int:
        return self._running.size

    @property
    def pid(self) -> int:
        """The process that serves."""
        return self._running.process.pid

    @property
    def argv(self) -> tuple[str, ...]:
        """Its command line."""
        return self._running.argv

    def cut(
        self, policy: CutPolicy, seed: int, next_log: Path | None, *, timeout_s: float
    ) -> CutReport:
        """Takes the power away, then gives it back; see `Disk.cut`.

        The log is durable on the host when this returns.  Raises HostError if the cut
        did not take place, or its log could not be made durable.
        """
        words = ["cut", policy.value, str(seed)]
        if next_log is not None:
            words.append(str(next_log.absolute()))
        answer = self._running.command(" ".join(words), timeout_s=timeout_s)
        return CutReport(
            at=Instant(answer["at_ns"]),
            dropped_writes=answer["dropped_writes"],
            dropped_bytes=answer["dropped_bytes"],
            survived_writes=answer["survived_writes"],
        )

    def stop_at_flush(self, count: int) -> None:
        """Stops the disk when the `count`-th flush since the start or the last cut is submitted.

        Raises HostError if there were that many before.
        """
        self._running.stop(f"flush {count}")

    def stop_after(self, completions: int, *, taking: bool) -> None:
        """Stops the disk once so many more requests have completed; see `Disk.stop_after`."""
        self._running.stop(f"{'during' if taking else 'after'} {completions}")

    def wait_stopped(self, *, timeout_s: float) -> bool:
        """True once the disk has stopped as it was asked to; False if it did not in time."""
        return self._running.wait_stopped(timeout_s=timeout_s)

    def mark(self, name: str) -> None:
        """Writes a mark into the log; `name` is one line."""
        if not name or "\n" in name:
            raise ValueError("a mark is one line of text")
        self._running.command(f"mark {name}")

    def set_latency(self, flush_ns: int, fua_ns: int) -> None:
        """How long a flush and a write with FUA take from now on; a mark in the log says so."""
        self._running.command(f"latency {flush_ns} {fua_ns}")

    def inject(self) -> None:
        """From now on it makes the errors that it was configured with, until a cut.

        Raises HostError if it does so already.
        """
        self._running.command("inject")

    @contextmanager
    def dark(self, parts: Collection[str], seed: int) -> Iterator[None]:
        """Meanwhile these of several disks have no power; `seed` decides what of their caches they
        keep."""
        for part in parts:
            self._running.command(f"lose {seed} {part}")
        yield
        for part in parts:
            self._running.command(f"regain {part}")

    def statistics(self) -> DiskStatistics:
        answer = self._running.command("stat")
        return DiskStatistics(**{f.name: answer[f.name] for f in fields(DiskStatistics)})

    def snapshot(self, path: Path) -> None:
        """Writes what a power loss would leave now, and no volatile write, to `path`, sparse.

        `path` must not exist.
        """
        self._running.command(f"snapshot {path.absolute()}")

    def close(self) -> None:
        """Closes the log in order and stops serving; idempotent.

        Raises HostError if nbdkit had died unnoticed: its log is truncated.
        """
        if self._nbdkit is not None:
            self._nbdkit.close()


def _fills(config: CaptureConfig, directory: Path) -> list[Path]:
    """The folders in which it makes files: logs, snapshots, sockets."""
    made = [path.parent for path in (config.log, config.control) if path is not None]
    return [config.sockets or directory, *made, *config.writes]


def _reads(config: CaptureConfig) -> list[Path]:
    return [config.base, config.plugin, hangup_library(config)]


class _Nbdkit:
    """The process, and the control connection to it."""

    def __init__(self, config: CaptureConfig, *, timeout_s: float) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="pcdisk-", dir=config.sockets)).absolute()
        self.stopped = False
        self._closed = False
        self._failed = False
        self._received = b""
        self._answers: deque[dict[str, Any]] = deque()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115
        self._control, inherited = socket.socketpair()
        before = serving(HostView(_fills(config, self.directory), _reads(config)))
        self.argv = (*before, *capture_argv(config, self.directory, inherited.fileno()))
        try:
            if len(str(self.directory / "nbd")) > _SOCKET_PATH_MAX:
                raise HostError(
                    f"{self.directory}/nbd is too long for the path of a unix socket",
                    hint="set TMPDIR to a shorter path",
                )
            environment = capture_environment(config, os.environ)
            self.process = self._spawn(self.argv, environment, inherited)
        except HostError:
            self._release()
            raise
        finally:
            inherited.close()
        try:
            self.size = int(self._next_line(time.monotonic() + timeout_s)["size"])
        except (HostError, DeadlineExceeded):
            self._kill()
            self._release()
            raise

    def _spawn(
        self, argv: Sequence[str], environment: Mapping[str, str], inherited: socket.socket
    ) -> subprocess.Popen[bytes]:
        if shutil.which("nbdkit") is None:
            raise HostError("nbdkit is not installed", hint="apt-get install nbdkit")
        try:
            with printed(self._output.fileno()) as said:
                return subprocess.Popen(
                    argv,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    pass_fds=[inherited.fileno()],
                    start_new_session=True,  # an interrupt at the terminal is the controller's
                )
        except OSError as error:
            raise HostError(f"cannot start {shlex.join(argv)}: {error.strerror}") from None

    # -- the control connection ------------------------------------------------------

    def command(self, line: str, *, timeout_s: float = _CONTROL_S) -> dict[str, Any]:
        """Sends a command and returns its answer; raises HostError if it failed."""
        if self._closed:
            raise HostError(f"{line.split(maxsplit=1)[0]}: the capture disk is closed")
        if "\n" in line:  # the rest would be a command of its own
            raise UsageError(f"{line!r}: a line break in a name", hint="use a folder without one")
        deadline = time.monotonic() + timeout_s
        try:
            self._control.settimeout(max(timeout_s, 0.001))
            self._control.sendall(os.fsencode(line) + b"\n")
        except TimeoutError:
            self._kill()
            raise self._too_late(timeout_s) from None
        except OSError:
            raise self._died() from None
        answer = self._next_line(deadline)
        if not answer["ok"]:
            raise HostError(f"capture disk: {answer['error']}")
        return answer

    def stop(self, how: str) -> None:
        """Asks the disk to stop; forgets that it has done so before."""
        self.stopped = False
        self.command(f"stop {how}")

    def wait_stopped(self, *, timeout_s: float) -> bool:
        """Reads on until the disk says that it has stopped."""
        deadline = time.monotonic() + timeout_s
        while not self.stopped:
            line = self._line(deadline)
            if line is None:
                return False
            self._take(line)
        return True

    def _next_line(self, deadline: float) -> dict[str, Any]:
        started = time.monotonic()
        while not self._answers:
            line = self._line(deadline)
            if line is None:
                # A late answer would be taken for that of the next command.
                self._kill()
                raise self._too_late(deadline - started)
            self._take(line)
        return self._answers.popleft()

    def _take(self, line: bytes) -> None:
        answer: dict[str, Any] = parse_json(line)
        if answer.get("event") == "stopped":
            self.stopped = True
        else:
            self._answers.append(answer)

    def _line(self, deadline: float) -> bytes | None:
        """The next line; None if there is none until `deadline`."""
        while b"\n" not in self._received:
            self._control.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                received = self._control.recv(65536)
            except TimeoutError:
                return None
            except OSError:
                received = b""
            if not received:
                raise self._died()
            self._received += received
        line, _, self._received = self._received.partition(b"\n")
        return line

    # -- trouble ------------------------------------------------------------------------

    def _too_late(self, waited_s: float) -> DeadlineExceeded:
        self._failed = True
        return DeadlineExceeded(
            f"the capture disk did not answer within {waited_s:.1f} s\n{self._diagnosis()}",
            hint="is the host's disk full or very slow?",
        )

    def _died(self) -> HostError:
        self._failed = True
        self._kill()
        status = self.process.returncode
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return HostError(f"the capture disk {how}\n{self._diagnosis()}")

    def _diagnosis(self) -> str:
        output = end_of(self._output.fileno())
        return f"command: {shlex.join(self.argv)}\noutput: {output or '(none)'}"

    # -- the end ------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the process in order; kills it if it does not end."""
        if self._closed:
            return
        try:
            if not self._failed:  # else it was told already
                self.command("shutdown", timeout_s=_CLOSE_S)
                self.process.wait(timeout=_CLOSE_S)
        except subprocess.TimeoutExpired:
            # The log was closed in order: nothing is lost with a server that hangs on.
            self._kill()
        finally:
            self._closed = True
            self._kill()
            self._release()

    def _kill(self) -> None:
        """Waits briefly for an end of its own accord, then kills and reaps."""
        if self._control.fileno() >= 0:
            self._control.close()
        try:
            self.process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(timeout=_CLOSE_S)

    def _release(self) -> None:
        self._control.close()
        self._output.close()
        shutil.rmtree(self.directory, ignore_errors=True)


# The port to a disk under test: something that serves NBD, records, and can lose its power.


@dataclass(frozen=True)
class DiskStatistics:
    """Counts since the disk started or was last cut.  Bytes where the name says so."""

    writes: int
    write_bytes: int
    fua_writes: int
    flushes: int
    zeroes: int
    discards: int
    volatile_writes: int
    volatile_bytes: int
    connections: int


@dataclass(frozen=True)
class CutReport:
    """What a cut did: the instant of it and how many volatile writes it took and left."""

    at: Instant
    dropped_writes: int
    dropped_bytes: int
    survived_writes: int


class Disk(Protocol):
    """A running disk.  It is a context manager; leaving the context closes it in order."""

    @property
    def socket(self) -> Path:
        """The unix socket on which it serves NBD."""

    @property
    def size(self) -> int:
        """Bytes."""

    def cut(
        self, policy: CutPolicy, seed: int, next_log: Path | None, *, timeout_s: float
    ) -> CutReport:
        """Takes the power away, then gives it back.

        What is volatile is dropped as `policy` says; requests on old connections fail
        from here on.  The current log is closed in order and made durable on the
        host.  New connections see the surviving medium; what they do is recorded in
        `next_log` (a path without suffix), or not at all if that is None.
        """

    def stop_at_flush(self, count: int) -> None:
        """Stops the disk when the `count`-th flush is submitted, before it acts.

        Flushes count from the start or the last cut.  A disk that has stopped takes no
        request, completes none and answers no read until it is cut.
        """

    def stop_after(self, completions: int, *, taking: bool) -> None:
        """Stops the disk once so many more requests have completed; at once for 0.

        With `taking` it keeps taking requests, which the cut then finds in flight, and
        answering reads; it has stopped as soon as a request waits.
        """

    def wait_stopped(self, *, timeout_s: float) -> bool:
        """True once the disk has stopped as it was asked to; False if it did not in time."""

    def mark(self, name: str) -> None:
        """Writes a mark into the log."""

    def statistics(self) -> DiskStatistics:
        """Counts so far."""

    def snapshot(self, path: Path) -> None:
        """Writes the medium as it is now (what a power loss would leave) to `path`, sparse."""

    def close(self) -> None:
        """Closes the log in order and stops serving; idempotent."""
