# SPDX-License-Identifier: Apache-2.0
"""Processes that a process has started, and waiting for what becomes of them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

_Said = TypeVar("_Said")


def descendants(root: int) -> list[tuple[int, str]]:
    """Processes below `root` that have not ended: pid and command line of each."""
    parents, lines = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                stat = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                if stat[0] != "Z":
                    parents[int(entry.name)] = int(stat[1])
                    lines[int(entry.name)] = (entry / "cmdline").read_text()
    found = {root}
    while more := {pid for pid, up in parents.items() if up in found} - found:
        found |= more
    return [(pid, lines[pid]) for pid in found - {root}]


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or waits only for its parent to hear of it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def wait_until(condition: Callable[[], _Said], timeout_s: float = 60.0) -> _Said:
    """What `condition` says as soon as it is true."""
    end = time.monotonic() + timeout_s
    while not (said := condition()):
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.05)
    return said
