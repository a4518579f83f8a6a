# SPDX-License-Identifier: Apache-2.0
"""QMP for callers that wait: the qemu.qmp package behind functions with deadlines.

The event loop runs only inside these functions.  So an object belongs to one thread
at a time, and QEMU's events wait in the socket between calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from qemu.qmp import ExecuteError, QMPClient, QMPError

from powercut.model.errors import DeadlineExceeded, HostError

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
