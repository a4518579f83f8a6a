# SPDX-License-Identifier: Apache-2.0
"""A process that is there and does nothing more."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from patience import AMPLE_S


def stop(pid: int) -> None:
    """Stops it, and returns when none of its threads runs any more.

    The signal is on its way when `kill` returns, and a busy host's thread may answer before that.
    Raises ProcessLookupError if the process has ended.
    """
    os.kill(pid, signal.SIGSTOP)
    end = time.monotonic() + AMPLE_S
    while not states(pid) <= {"T", "t", "Z"}:
        assert time.monotonic() < end, f"process {pid} does not stop"
        time.sleep(0.001)


def states(pid: int) -> set[str]:
    """The states of its threads (proc(5)): T is stopped, t by a tracer."""
    found = set()
    for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):  # it has ended
            found.add(thread.read_text().rpartition(")")[2].split()[0])
    return found
