# SPDX-License-Identifier: Apache-2.0
"""A command as somebody at a terminal has it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import subprocess
import termios
import time
from typing import IO

START_S = 180


class Terminal:
    """A program on a pseudo-terminal."""

    def __init__(
        self, argv: list[str], *, controlling: bool = False, stderr: IO[str] | None = None
    ) -> None:
        """A terminal that is `controlling` says when it is closed: SIGHUP."""

        def take() -> None:
            if controlling:
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            argv,
            stdin=slave,
            stdout=slave,
            stderr=stderr or slave,
            start_new_session=True,
            preexec_fn=take,  # noqa: PLW1509  it only makes a system call
        )
        os.close(slave)
        self.seen = b""

    def type(self, text: bytes) -> None:
        os.write(self.master, text)

    def wait_for(self, text: bytes) -> bytes:
        """What came up to `text`, which is taken away."""
        deadline = time.monotonic() + START_S
        while text not in self.seen:
            left = deadline - time.monotonic()
            assert left > 0, f"no {text!r} in {self.seen!r}"
            if select.select([self.master], [], [], left)[0]:
                try:
                    self.seen += os.read(self.master, 4096)
                except OSError:  # the other end is closed
                    raise AssertionError(f"it ended without {text!r}: {self.seen!r}") from None
        before, _, self.seen = self.seen.partition(text)
        return before

    def hang_up(self) -> None:
        os.close(self.master)
        self.master = -1

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.master >= 0:
            os.close(self.master)
