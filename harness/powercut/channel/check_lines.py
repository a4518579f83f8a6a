# SPDX-License-Identifier: Apache-2.0
"""What a check in a guest says on the guest's port for lines, whole or not at all."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Final, Self

from powercut.channel.lines import END_OF_LINES, GUEST_PORT
from powercut.channel.listener import connect_unix, shut_down
from powercut.closing import Closing
from powercut.model.errors import DeadlineExceeded, HostError
from powercut.model.history import LatencyHistogram

_RECEIVE_BYTES: Final = 1 << 20
_SAID_MAX: Final = 64 << 20
_CLOSE_S: Final = 20.0


class CheckLines(Closing):
    """What programs in a guest say one after the other, each up to the end that its agent tells."""

    def __init__(self, port: socket.socket) -> None:
        self._port = port
        self._said = b""
        self._changed = threading.Condition()
        self._hung_up = False
        self._thread = threading.Thread(target=self._receive, name="check lines", daemon=True)
        self._thread.start()

    @classmethod
    def on_port(cls, path: Path) -> Self:
        """Connects to the port for lines of a machine that runs.  Raises HostError."""
        return cls(connect_unix(path, GUEST_PORT))

    def _receive(self) -> None:
        try:
            while len(self._said) < _SAID_MAX and (data := self._port.recv(_RECEIVE_BYTES)):
                with self._changed:
                    self._said += data
                    self._changed.notify()
        except OSError:
            pass  # the guest is gone, and the waiter hears that there was no end
        with self._changed:
            self._hung_up = True
            self._changed.notify()

    def wait_end(self, timeout_s: float) -> bytes:
        """All that the program has said which has ended now.

        The next one must not be started before.  Raises HostError if the end did not come,
        DeadlineExceeded.
        """
        with self._changed:
            if not self._changed.wait_for(self._is_over, max(timeout_s, 0.0)):
                raise DeadlineExceeded("the end of what the check said did not come in time")
            if not self._said.endswith(END_OF_LINES):
                raise HostError("what the check said has no end")
            said, self._said = self._said, b""
        return said.removesuffix(END_OF_LINES)

    def _is_over(self) -> bool:
        return self._hung_up or self._said.endswith(END_OF_LINES)

    def close(self) -> None:
        shut_down(self._port)
        self._thread.join(_CLOSE_S)
        self._port.close()


# What a channel without a wire has of `channel.port.Channel`: its programs speak in lines.


class LinesAlone:
    """Nothing is acknowledged by wire, and nothing is made of another clock."""

    def keep_time(self) -> None:
        """Lines are dated by their source."""

    def wait_ready(self, *, timeout_s: float) -> None:
        del timeout_s
        raise _no_wire()

    def wait_acks(self, count: int, *, timeout_s: float) -> bool:
        del count, timeout_s
        raise _no_wire()

    @property
    def acked(self) -> int:
        return 0

    @property
    def latency(self) -> LatencyHistogram | None:
        return None


def _no_wire() -> HostError:
    return HostError("this machine runs programs that speak in lines, and no others")
