# SPDX-License-Identifier: Apache-2.0
"""A switch that commands of this host's turn, as they turn the power of a foreign machine."""

from __future__ import annotations

import contextlib
import shlex
import socket
import sys
import threading
from pathlib import Path
from typing import Protocol

from powercut.closing import Closing


class Switched(Protocol):
    """What hangs on it.  What was started by `on` lives as long as the switch."""

    is_on: bool

    def on(self) -> None: ...
    def off(self) -> None: ...


class Switch(Closing):
    def __init__(self, folder: Path, switched: Switched) -> None:
        self._path = folder / "switch"
        self._switched = switched
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(self._path))
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def command(self, word: str) -> str:
        """The command line for `off`, `on` or `status`."""
        program = Path(__file__).with_name("power_switch.py")
        return shlex.join([sys.executable, str(program), str(self._path), word])

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            # Whoever asked may be gone by now; what goes wrong is told, and ends the command.
            with client, contextlib.suppress(BrokenPipeError):
                word = client.recv(100).decode().strip()
                client.sendall(self._turned(word).encode())

    def _turned(self, word: str) -> str:
        try:
            if word == "off":
                self._switched.off()
            elif word == "on":
                self._switched.on()
        except Exception as error:
            return f"error: {error}\n"
        return "on\n" if self._switched.is_on else "off\n"

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
