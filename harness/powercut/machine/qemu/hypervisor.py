# SPDX-License-Identifier: Apache-2.0
"""One QEMU process with its QMP connection and what both of them say."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from qemu.qmp import ExecuteError, QMPClient, QMPError

from powercut.machine.process import spawn, wait_stopped
from powercut.machine.qemu.devices import Properties
from powercut.model.errors import DeadlineExceeded, HostError, PowercutError
from powercut.sandbox.printed import tail
from powercut.sandbox.users import HostView

_MIGRATES_TO_FILES: Final = (8, 2)
_REAP_TIMEOUT_S: Final = 10
_POLL_S: Final = 0.001
_EVENT_NS: Final = 1000
"""Resolution of the instants of QEMU's events."""


class Hypervisor:
    """A QEMU that was started and has answered on QMP.  Made by `launch`."""

    def __init__(self, argv: Sequence[str], process: subprocess.Popen[bytes], qmp: Qmp) -> None:
        self.argv = argv
        self.process = process
        self._qmp = qmp

    @classmethod
    def launch(
        cls,
        argv: Sequence[str],
        qmp_path: Path,
        log: Path,
        console: Path,
        *,
        view: HostView | None,
        timeout_s: float,
    ) -> Self:
        """Starts QEMU with `argv` and waits until it has connected to `qmp_path`.

        `log` gets its errors, `console` its standard output: the guest's console.
        `view` is what root's has of the host; None: it opens files as root.  Raises HostError with
        its command line, exit status and output if it does not start; nothing is then left of it.
        """
        deadline = time.monotonic() + timeout_s
        qmp = Qmp(qmp_path)
        try:
            process = spawn(argv, log, console=console, view=view, few_powers=view is None)
            made = cls(argv, process, qmp)
        except BaseException:
            qmp.close()
            raise
        try:
            qmp.accept(made.process.pid, timeout_s=deadline - time.monotonic())
        except PowercutError as error:
            made.kill()
            raise HostError(
                f"QEMU did not start: {error}\n{describe(argv, made.process, log)}",
                hint="`powercut doctor` checks what this host can do",
            ) from None
        except BaseException:
            made.kill()
            raise
        return made

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def status(self, *, timeout_s: float) -> str:
        """QEMU's run state: running, inmigrate, paused and so on."""
        return str(self._qmp.execute("query-status", timeout_s=timeout_s)["status"])

    def block_statistics(self, *, timeout_s: float) -> dict[str, Any]:
        """What the guest has asked of the first disk under test, as `query-blockstats` says it.

        Raises HostError if QEMU knows no such disk.
        """
        answer = self._qmp.execute("query-blockstats", timeout_s=timeout_s)
        for device in answer:
            if device.get("node-name") == "disk":
                return dict(device["stats"])
        raise HostError("QEMU has no statistics of the disk under test")

    def plug(self, device: Properties, *, timeout_s: float) -> None:
        """Adds a device to the guest that runs.  Raises HostError with QEMU's reason."""
        self._qmp.execute("device_add", dict(device), timeout_s=timeout_s)

    def wait_status(self, wanted: str, *, timeout_s: float) -> None:
        """Waits until the run state is `wanted`."""
        deadline = time.monotonic() + timeout_s
        status = "silent"
        while (remaining_s := deadline - time.monotonic()) > 0:
            with contextlib.suppress(DeadlineExceeded):
                status = self.status(timeout_s=remaining_s)
            if status == wanted:
                return
            time.sleep(_POLL_S)
        raise DeadlineExceeded(f"after {timeout_s:.3g} s the guest is '{status}', not '{wanted}'")

    def save(self, state: Path, *, with_ram: bool = False, timeout_s: float) -> int:
        """Writes the machine's state to a new file, without RAM that is in a file which it shares,
        or all of it; returns what `hand_over` does."""
        with state.open("xb") as file:
            uri = self._state_uri(state, file.fileno(), timeout_s)
            return self.hand_over(uri, with_ram=with_ram, timeout_s=timeout_s)

    def hand_over(self, uri: str, *, with_ram: bool = True, timeout_s: float) -> int:
        """Sends the guest away, live; returns once it stands still here, and all is sent.

        Returns an instant (CLOCK_MONOTONIC, ns) at which it stood still: that of QEMU's event STOP,
        which comes after the processors have stopped, and before the disk is flushed.
        """
        began_ns, deadline = time.monotonic_ns(), time.monotonic() + timeout_s
        self._send_shared_ram(with_ram, timeout_s)
        self._qmp.take_events("STOP")
        self._qmp.execute("migrate", {"uri": uri}, timeout_s=timeout_s)
        while True:
            answer = self._qmp.execute("query-migrate", timeout_s=timeout_s)
            if answer.get("status") == "completed":
                return self._stopped_ns(began_ns)
            if answer.get("status") in ("failed", "cancelled"):
                raise HostError(f"QEMU cannot save its state: {answer.get('error-desc', '')}")
            if time.monotonic() >= deadline:
                raise DeadlineExceeded(f"QEMU did not save its state within {timeout_s:.3g} s")
            time.sleep(_POLL_S)

    def _stopped_ns(self, began_ns: int) -> int:
        ahead_ns = _ahead_ns()
        now_ns = time.monotonic_ns()
        stops = (at_ns + _EVENT_NS - ahead_ns for at_ns in self._qmp.take_events("STOP"))
        return min((at_ns for at_ns in stops if began_ns <= at_ns), default=now_ns)

    def reset(self, channel: Path, *, timeout_s: float) -> int:
        """Resets the guest, which boots again here, and connects its channel anew.

        Its processors are not stopped before by QMP: with that QEMU flushes the disk (do_vm_stop in
        softmmu/cpus.c), which no reset does.  Returns an instant (CLOCK_MONOTONIC, ns) at which the
        guest stood still: that of QEMU's event RESET.
        """
        deadline = time.monotonic() + timeout_s
        self._qmp.take_events("RESET")
        self._on_reboot("reset", timeout_s)
        began_ns = time.monotonic_ns()
        self._qmp.execute("system_reset", timeout_s=deadline - time.monotonic())
        happened_ns = self._qmp.wait_event("RESET", timeout_s=deadline - time.monotonic())
        reset_ns = happened_ns + _EVENT_NS - _ahead_ns()
        address = {"type": "unix", "data": {"path": str(channel)}}
        backend = {"type": "socket", "data": {"addr": address, "server": False}}
        self._qmp.execute(
            "chardev-change",
            {"id": "ctl", "backend": backend},
            timeout_s=deadline - time.monotonic(),
        )
        return min(max(reset_ns, began_ns), time.monotonic_ns())

    def end_on_reboot(self, *, timeout_s: float) -> None:
        """From now on QEMU ends when its guest resets itself, as its command line says.

        Not right after `reset`: the firmware of the board `pc`, whose copy in RAM no reset renews,
        resets once more to get it anew (tryReboot in SeaBIOS's src/resume.c).
        """
        self._on_reboot("shutdown", timeout_s)

    def _on_reboot(self, action: str, timeout_s: float) -> None:
        self._qmp.execute("set-action", {"reboot": action}, timeout_s=timeout_s)

    def listen(self, uri: str, *, with_ram: bool = True, timeout_s: float) -> None:
        """Waits at `uri` for a guest that another hypervisor sends."""
        self._send_shared_ram(with_ram, timeout_s)
        self._qmp.execute("migrate-incoming", {"uri": uri}, timeout_s=timeout_s)

    def restore(self, state: Path, *, with_ram: bool = False, timeout_s: float) -> None:
        """Takes over the state that `save` wrote; returns once the guest runs."""
        deadline = time.monotonic() + timeout_s
        try:
            with state.open("rb") as file:
                uri = self._state_uri(state, file.fileno(), timeout_s)
        except OSError as error:  # another process has thrown a template away
            raise HostError(f"cannot read the saved guest {state}: {error.strerror}") from None
        self.listen(uri, with_ram=with_ram, timeout_s=timeout_s)
        self.wait_status("running", timeout_s=deadline - time.monotonic())

    def quit(self, *, timeout_s: float) -> None:
        """Asks QEMU to end in its usual order and waits until it is gone."""
        deadline = time.monotonic() + timeout_s
        with contextlib.suppress(HostError):  # it may hang up before it answers
            self._qmp.execute("quit", timeout_s=timeout_s)
        try:
            self.process.wait(max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise DeadlineExceeded(f"QEMU did not quit within {timeout_s:.3g} s") from None
        self._qmp.close()

    def freeze(self, *, timeout_s: float) -> None:
        """Stops the process where it is; returns once none of its threads runs.

        A thread that waits in the kernel for storage counts as one that does not run: it
        stops before it comes back from there.  Whoever calls this goes on to kill.
        """
        self.process.send_signal(signal.SIGSTOP)
        wait_stopped(self.process.pid, timeout_s=timeout_s)

    def kill(self, *, timeout_s: float = _REAP_TIMEOUT_S) -> None:
        """SIGKILL, and waits until the process is gone; idempotent."""
        self.process.kill()
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise DeadlineExceeded(
                f"QEMU (process {self.process.pid}) outlived SIGKILL by {timeout_s:.3g} s",
                hint="a process that cannot be killed waits for the host's storage",
            ) from None
        finally:
            self._qmp.close()

    def _state_uri(self, state: Path, fd: int, timeout_s: float) -> str:
        """How this QEMU is told of the file `state`, open as `fd`.

        QEMU opens files for this itself since 8.2 (`file:`); for `fd:`, files are deprecated
        since 9.1 (docs/about/deprecated.rst), and 11.1 refuses them.
        """
        version = self._qmp.execute("query-version", timeout_s=timeout_s)["qemu"]
        if (version["major"], version["minor"]) >= _MIGRATES_TO_FILES:
            return f"file:{state}"
        self._qmp.send_file("state", fd, timeout_s=timeout_s)
        return "fd:state"

    def _send_shared_ram(self, sent: bool, timeout_s: float) -> None:
        """To be set alike on both sides, and kept by a guest that was restored."""
        capability = {"capability": "x-ignore-shared", "state": not sent}
        self._qmp.execute(
            "migrate-set-capabilities", {"capabilities": [capability]}, timeout_s=timeout_s
        )


def _ahead_ns() -> int:
    """By how much CLOCK_REALTIME, the clock of events, is ahead of CLOCK_MONOTONIC."""
    return time.time_ns() - time.monotonic_ns()  # in this order: instants are rather too late


def describe(argv: Sequence[str], process: subprocess.Popen[bytes] | None, log: Path) -> str:
    """For a person: command line, exit status, the end of the output."""
    if process is None:
        state = "not started"
    else:
        status = process.poll()
        if status is None:
            state = f"running as process {process.pid}"
        elif status < 0:
            state = f"killed by signal {-status}"
        else:
            state = f"exit status {status}"
    output = tail(log)
    return f"command: {shlex.join(argv)}\nQEMU: {state}" + (f"\noutput: {output}" if output else "")


# QMP for callers that wait: the qemu.qmp package behind functions with deadlines.
#
# The event loop runs only inside these functions.  So an object belongs to one thread
# at a time, and QEMU's events wait in the socket between calls.

_T = TypeVar("_T")
_CLOSE_TIMEOUT_S = 5

# A killed QEMU is a normal end here; callers get an exception for what is not.
logging.getLogger("qemu.qmp").setLevel(logging.CRITICAL)


class Qmp:
    """Listens on a unix socket for one QEMU and commands it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._loop = asyncio.new_event_loop()
        self._client = QMPClient("powercut")
        self._closed = False
        try:
            self._loop.run_until_complete(self._client.start_server(str(path)))
        except QMPError as error:
            self._finish()
            raise HostError(f"cannot listen for QEMU on {path}: {error}") from None

    def accept(self, pid: int, *, timeout_s: float) -> None:
        """Waits until QEMU has connected and negotiated.

        Raises HostError at once if process `pid` ends before, DeadlineExceeded if
        neither happens in time.
        """
        self._call(self._accept(pid), "connect to QMP", timeout_s)

    def execute(
        self, command: str, arguments: dict[str, object] | None = None, *, timeout_s: float
    ) -> Any:
        """Runs one command and returns what it returns."""
        return self._call(self._client.execute(command, arguments), command, timeout_s)

    def send_file(self, name: str, fd: int, *, timeout_s: float) -> None:
        """Passes an open file to QEMU, under a name for URIs of the kind `fd:NAME`."""
        self._call(self._send_file(name, fd), "getfd", timeout_s)

    def take_events(self, name: str) -> list[int]:
        """When events of that name happened which came since the last call; ns of CLOCK_REALTIME.

        Those of other names are dropped.
        """
        events: list[Any] = [dict(event) for event in self._client.events.clear()]
        stamps = [event["timestamp"] for event in events if event["event"] == name]
        return [stamp["seconds"] * 10**9 + stamp["microseconds"] * 1000 for stamp in stamps]

    def wait_event(self, name: str, *, timeout_s: float) -> int:
        """Waits for the next event of that name; returns when it happened, as `take_events`."""
        return self._call(self._next_event(name), f"tell of {name}", timeout_s)

    def close(self) -> None:
        """Hangs up, whatever state the connection is in; idempotent."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(Exception):
            self._loop.run_until_complete(
                asyncio.wait_for(self._client.disconnect(), _CLOSE_TIMEOUT_S)
            )
        self._finish()
        self._path.unlink(missing_ok=True)

    async def _accept(self, pid: int) -> None:
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            raise HostError("QEMU ended before it connected to QMP") from None
        loop = asyncio.get_running_loop()
        gone = asyncio.Event()
        loop.add_reader(pidfd, gone.set)
        waiting = asyncio.ensure_future(gone.wait())
        accepting = asyncio.ensure_future(self._client.accept())
        try:
            await asyncio.wait({accepting, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if not accepting.done():
                raise HostError("QEMU ended before it connected to QMP")
            await accepting
        finally:
            loop.remove_reader(pidfd)
            os.close(pidfd)
            waiting.cancel()
            if not accepting.done():
                accepting.cancel()
                with contextlib.suppress(asyncio.CancelledError, QMPError):
                    await accepting

    async def _next_event(self, name: str) -> int:
        while (event := await self._client.events.get())["event"] != name:
            pass
        stamp: Any = event["timestamp"]
        return int(stamp["seconds"] * 10**9 + stamp["microseconds"] * 1000)

    async def _send_file(self, name: str, fd: int) -> None:
        self._client.send_fd_scm(fd)
        await self._client.execute("getfd", {"fdname": name})

    def _call(self, work: Coroutine[Any, Any, _T], what: str, timeout_s: float) -> _T:
        try:
            return self._loop.run_until_complete(asyncio.wait_for(work, timeout_s))
        except TimeoutError:
            raise DeadlineExceeded(f"QEMU did not {what} within {timeout_s:.3g} s") from None
        except ExecuteError as error:
            raise HostError(f"QEMU refused {what}: {error}") from None
        except (QMPError, OSError, EOFError) as error:
            raise HostError(f"QEMU hung up during {what}: {error}") from None

    def _finish(self) -> None:
        loop = self._loop
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=_CLOSE_TIMEOUT_S))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
