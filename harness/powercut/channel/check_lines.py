# SPDX-License-Identifier: Apache-2.0
"""What a check in a guest says on the guest's port for lines, whole or not at all."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Final, Self

from powercut.channel.lines import END_OF_LINES, GUEST_PORT
from powercut.channel.listener import connect_unix
from powercut.closing import Closing
from powercut.model.errors import DeadlineExceeded, HostError

_RECEIVE_BYTES: Final = 1 << 20
_SAID_MAX: Final = 64 << 20


class CheckLines(Closing):
    """What one check in a guest says, up to the end that its agent tells."""

    def __init__(self, port: socket.socket) -> None:
        self._port = port
        self._said = b""
        self._ended = False
        self._thread = threading.Thread(target=self._receive, name="check lines", daemon=True)
        self._thread.start()

    @classmethod
    def on_port(cls, path: Path) -> Self:
        """Connects to the port for lines of a machine that runs.  Raises HostError."""
        return cls(connect_unix(path, GUEST_PORT))

    def _receive(self) -> None:
        try:
            while len(self._said) < _SAID_MAX and (data := self._port.recv(_RECEIVE_BYTES)):
                self._said += data
                if self._said.endswith(END_OF_LINES):
                    self._ended = True
                    return
        except OSError:
            return  # the guest is gone, and whoever waits hears that there was no end

    def wait_end(self, timeout_s: float) -> bytes:
        """All of it.  Raises HostError if the end did not come, DeadlineExceeded."""
        self._thread.join(max(timeout_s, 0.0))
        if self._thread.is_alive():
            raise DeadlineExceeded("the end of what the check said did not come in time")
        if not self._ended:
            raise HostError("what the check said has no end")
        return self._said.removesuffix(END_OF_LINES)

    def close(self) -> None:
        """Hangs up; idempotent."""
        self._port.close()
