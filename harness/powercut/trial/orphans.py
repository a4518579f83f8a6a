# SPDX-License-Identifier: Apache-2.0
"""Ends whatever a program leaves behind, daemons included.

A process that forks away from its session and its process group keeps one thing: an
ancestor.  While we are a subreaper (prctl(2), PR_SET_CHILD_SUBREAPER) its orphans become our
children, and can be found.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from powercut.model.errors import HostError

_PR_SET_CHILD_SUBREAPER: Final = 36  # include/uapi/linux/prctl.h
_PR_GET_CHILD_SUBREAPER: Final = 37
_ENDS_WITHIN_S: Final = 10.0
_POLL_S: Final = 0.002
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def orphans_ended() -> Iterator[None]:
    """On the way out, kills every process that was started meanwhile, and waits for it.

    No other thread may start processes meanwhile.  Raises HostError if one does not go.
    """
    before, was = frozenset(_children()), ctypes.c_int()
    _libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(was), 0, 0, 0)
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        try:
            _end(before)
        finally:
            _libc.prctl(_PR_SET_CHILD_SUBREAPER, was.value, 0, 0, 0)


def _end(before: frozenset[int]) -> None:
    """Killing one makes its children ours, so it is done until there is none."""
    deadline = time.monotonic() + _ENDS_WITHIN_S
    while left := [pid for pid in _children() if pid not in before]:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > deadline:
            raise HostError(f"processes of the program do not end: {left}")
        time.sleep(_POLL_S)


def _children() -> list[int]:
    children: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that has ended meanwhile
            children += map(int, (task / "children").read_text().split())
    return children
