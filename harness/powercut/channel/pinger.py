# SPDX-License-Identifier: Apache-2.0
"""Pings a guest while it runs, so that its clock can be told from the host's.

What an answer is worth depends on its fastest part, so one ping that was lucky is as good
as many: the first few follow one another at once, later ones keep pace with drift.  At
most one is on its way.  An answer that does not come (the guest runs a program that answers
none, or a ping went under with the program that had read it) is given up after a while.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

FIRST: Final = 8
"""So many pings follow one another without a pause."""

INTERVAL_S: Final = 0.02
"""Between later ones.  An answer takes a guest of one emulated processor about 0.1 ms."""

GIVEN_UP_S: Final = 0.5


class Pinger:
    """One thread; `changed` is notified when an answer may have arrived.

    `send(number)` sends one ping, and returns False when there is no guest to send it to any
    more.  `answers()` counts what has been answered, and is called with `changed` held.
    """

    def __init__(
        self,
        send: Callable[[int], bool],
        changed: threading.Condition,
        answers: Callable[[], int],
    ) -> None:
        self._send = send
        self._changed = changed
        self._answers = answers
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._ping, name="pings", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Sends no more; returns once the thread has ended."""
        self._stopped.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join()

    def _ping(self) -> None:
        number = 0
        while not self._stopped.is_set():
            with self._changed:
                before = self._answers()
            number += 1
            if not self._send(number):
                return
            self._wait_answer(before)
            if number >= FIRST:
                self._stopped.wait(INTERVAL_S)

    def _wait_answer(self, before: int) -> None:
        def answered() -> bool:
            return self._stopped.is_set() or self._answers() > before

        with self._changed:
            self._changed.wait_for(answered, GIVEN_UP_S)
