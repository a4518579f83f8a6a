# SPDX-License-Identifier: Apache-2.0
"""What a program in a captured folder has acknowledged so far, and the wait for enough of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from powercut.channel.lines import LineCounter
from powercut.model.confidence import OPERATIONS_MIN
from powercut.rig.folder import CapturedFolder

_POLL_S: Final = 0.01


class FolderAcks:
    """Counts what a program acknowledges, and wakes who waits for so many (0: for none), or once it
    has said too much."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._counter = LineCounter()
        self.enough = threading.Event()

    def hear(self, data: bytes) -> None:
        self._counter.take(data)
        if self._counter.too_much or 0 < self._wanted <= self._counter.acks:
            self.enough.set()

    @property
    def too_few(self) -> bool:
        """Whether the program has begun, and acknowledged too little to prove anything."""
        return self._counter.begun and self._counter.acks < OPERATIONS_MIN

    def wait(
        self,
        captured: CapturedFolder,
        seconds: float,
        *,
        longer: int = 1,
        is_enough: Callable[[int], bool] | None = None,
    ) -> int | None:
        """Returns once the power may go: after `seconds`, or `longer` times as many while there
        are too few; or at the acks that are wanted, and so many more that `is_enough` says so.

        The exit status of the command, if it has ended before.
        """
        status, begin = None, time.monotonic()
        while status is None:
            if time.monotonic() > begin + seconds * (longer if self.too_few else 1):
                break
            if not self.enough.wait(_POLL_S):
                status = captured.wait_ended(timeout_s=0)
            elif is_enough is None or self._counter.too_much or is_enough(self._counter.acks):
                break
            else:
                status = captured.wait_ended(timeout_s=_POLL_S)
        return status
