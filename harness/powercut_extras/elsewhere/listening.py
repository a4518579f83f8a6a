# SPDX-License-Identifier: Apache-2.0
"""Lines from whoever connects to this host: by TCP, with a token and perhaps TLS."""

from __future__ import annotations

import hashlib
import os
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

from powercut.channel.line_channel import LineChannel
from powercut.channel.line_sources import StreamSource
from powercut.model.binding import Binding
from powercut.model.errors import HostError, UsageError
from powercut.model.operations import Packet
from powercut_extras.elsewhere.first_to_speak import FirstToSpeak

_BACKLOG: Final = 16
_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"


def heard_on(
    listener: socket.socket,
    file: Path,
    binding: Binding,
    *,
    token: str = "",
    tls: ssl.SSLContext | None = None,
    on_refused: Callable[[str], None] = lambda _: None,
) -> LineChannel:
    """The lines of the first that speaks.

    `on_refused` hears, from another thread, why a connection was hung up.
    """
    first = FirstToSpeak(listener, token, tls=tls, on_refused=on_refused)
    return LineChannel(ListeningSource(first), file, binding)


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


class ListeningSource:
    """Lines from the first that connects and speaks, or says the token."""

    def __init__(self, first: FirstToSpeak) -> None:
        self._first = first
        self._stream: StreamSource | None = None

    @property
    def connected(self) -> bool:
        return self._stream is not None

    @property
    def said_end(self) -> bool:
        """Whether that one has said that its program's lines are over."""
        return self._stream is not None and self._stream.said_end

    def next(self) -> Packet | None:
        """The next whole lines of the one that spoke first."""
        if self._stream is None:
            connection = self._first.wait()
            if connection is None:
                return None
            self._stream = StreamSource(connection)
        return self._stream.next()

    def refuse_others(self) -> None:
        """No further connections are accepted.  One that was is read to its end."""
        self._first.refuse_others()

    def hang_up(self) -> None:
        self._first.hang_up()

    def close(self) -> None:
        self._first.close()
        if self._stream is not None:
            self._stream.close()
