# SPDX-License-Identifier: Apache-2.0
"""A hypervisor process that somebody else has started.

libvirt's own ways to end a domain let QEMU flush what it has (SIGTERM; so does destroy()), which
no power cut does.  So the process is found, held by a file descriptor (pidfd_open(2)), which
cannot come to mean another one, and killed.
"""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from pathlib import Path
from typing import Self
from uuid import UUID

from powercut.machine.process import wait_stopped
from powercut.model.errors import DeadlineExceeded


class ForeignProcess:
    """A running process, by its number; `close` lets go of it."""

    def __init__(self, pid: int) -> None:
        """Raises ProcessLookupError if there is none."""
        self.pid = pid
        self._fd = os.pidfd_open(pid)

    @classmethod
    def of_domain(cls, uuid: UUID) -> Self | None:
        """The QEMU whose command line says that it is the domain `uuid`; None if there is none."""
        words = b"\0-uuid\0" + str(uuid).encode() + b"\0"
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal():
                continue
            with suppress(OSError):
                if words in (entry / "cmdline").read_bytes():
                    return cls(int(entry.name))
        return None

    @property
    def running(self) -> bool:
        return not self._ended(0)

    def kill(self) -> None:
        """Sends SIGKILL; idempotent.  Raises PermissionError."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._fd, signal.SIGKILL)

    def wait_ended(self, *, timeout_s: float) -> None:
        """Returns once it is gone.  Raises DeadlineExceeded."""
        if not self._ended(timeout_s):
            raise DeadlineExceeded(
                f"QEMU (process {self.pid}) was still there after {timeout_s:.3g} s",
                hint="a process that cannot be killed waits for the host's storage",
            )

    def freeze(self, *, timeout_s: float) -> None:
        """Stops it where it is; returns once none of its threads runs."""
        signal.pidfd_send_signal(self._fd, signal.SIGSTOP)
        wait_stopped(self.pid, timeout_s=timeout_s)

    def close(self) -> None:
        os.close(self._fd)

    def _ended(self, timeout_s: float) -> bool:
        # Readable once the process has ended, even if nobody has waited for it yet.
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(max(timeout_s, 0) * 1000))
