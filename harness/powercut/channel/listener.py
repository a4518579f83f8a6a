# SPDX-License-Identifier: Apache-2.0
"""Sockets for a guest to connect to, or that it listens on."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from pathlib import Path
from typing import Final

from powercut.model.errors import HostError

_SEND_TIMEOUT_S: Final = 5
_BACKLOG: Final = 16
_UNIX_PATH_MAX: Final = 107
"""Bytes in the path of a unix socket; unix(7)."""


def listen_unix(path: Path) -> socket.socket:
    """Listens on a new unix socket that only this user may connect to."""
    _require_short(path)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise HostError(f"cannot listen on {path}: {error.strerror}") from None
    return listener


def connect_unix(path: Path, name: str) -> socket.socket:
    """A connection to the unix socket `path`, of which a message speaks as `name`."""
    _require_short(path)
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
    except OSError as error:
        connection.close()
        raise HostError(f"cannot connect to {name}: {error.strerror}") from error
    return connection


def _require_short(path: Path) -> None:
    if len(os.fsencode(path)) > _UNIX_PATH_MAX:
        raise HostError(
            f"the path of the socket is longer than {_UNIX_PATH_MAX} bytes: {path}",
            hint="use a shorter directory for run-time files, for example with TMPDIR=/tmp",
        )


def prepare(connection: socket.socket) -> None:
    """Makes an accepted connection prompt, and its sending (only that) give up in time.

    A guest that does not read must not hang the controller.
    """
    if connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    timeout = struct.pack("ll", _SEND_TIMEOUT_S, 0)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)


def shut_down(endpoint: socket.socket) -> None:
    """Wakes the threads that are blocked in accept or recv on `endpoint`."""
    with contextlib.suppress(OSError):
        # Of an SSLSocket, too: its own `shutdown` would have what comes read as it is, encrypted.
        socket.socket.shutdown(endpoint, socket.SHUT_RDWR)
