# SPDX-License-Identifier: Apache-2.0
"""Counts a program's acks while it runs."""

from __future__ import annotations

import threading

from powercut.model.operations import Packet


class AckCounter:
    """Counts acks as they come in, and sees whether the program has begun."""

    def __init__(self) -> None:
        self.acks = 0
        self._ready = threading.Event()

    @property
    def begun(self) -> bool:
        """Whether it is ready, or has acknowledged something."""
        return self._ready.is_set() or self.acks > 0

    def take(self, packet: Packet) -> None:
        """Takes what was received."""
        lines = packet.data.splitlines()
        self.acks += sum(line.startswith(b"+ ") for line in lines)
        if b"ready" in lines:
            self._ready.set()
