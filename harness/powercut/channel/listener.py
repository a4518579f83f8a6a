# SPDX-License-Identifier: Apache-2.0
"""Sockets for a guest to connect to, or that it listens on."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import ssl
import struct
from pathlib import Path
from typing import Final

from powercut.model.errors import HostError, UsageError

_SEND_TIMEOUT_S: Final = 5
_BACKLOG: Final = 16
_UNIX_PATH_MAX: Final = 107
"""Bytes in the path of a unix socket; unix(7)."""

_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"


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


def listen_tcp(host: str, port: int) -> socket.socket:
    """Listens on TCP; port 0 takes a free one."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        raise HostError(f"cannot listen on {host} port {port}: {error.strerror}") from None


def tls_of(certificate: Path, key: Path) -> ssl.SSLContext:
    """What a listener says to show that it is the one that was meant.  Raises UsageError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for path in (certificate, key):
        if not os.access(path, os.R_OK):
            raise UsageError(f"{path}: is not there, or cannot be read")
    try:
        context.load_cert_chain(certificate, key, password=_no_passphrase)
    except ssl.SSLError as error:
        why = "they do not belong together" if "MISMATCH" in str(error.reason) else "not PEM files"
        raise UsageError(
            f"{certificate} and {key}: {why} ({error.reason})",
            hint="give a certificate and its private key, both in PEM",
        ) from None
    except OSError as error:
        raise UsageError(f"{certificate} and {key}: {error.strerror}") from None
    return context


def _no_passphrase() -> str:
    raise UsageError("the private key has a passphrase", hint="give a key without one")


def fingerprint_of(certificate: Path) -> str:
    """SHA-256 of the first certificate in a PEM file, as `openssl x509 -fingerprint` has it."""
    text = certificate.read_text()
    begin, end = text.index(_BEGIN), text.index(_END) + len(_END)
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(text[begin:end])).hexdigest()


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
