# SPDX-License-Identifier: Apache-2.0
"""Of all that connect to a listener, the one that counts.

It is the first that speaks.  With a token it is the first whose first line is that token; whoever
says anything else is hung up.  Several may be connected at once, so that a stranger who says
nothing keeps anyone out.  With TLS that holds once a connection is encrypted, and one that is not
is hung up.
"""

from __future__ import annotations

import contextlib
import hmac
import selectors
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Final

from powercut.channel.listener import prepare, shut_down

_CANDIDATES_MAX: Final = 16
_TOLD_MAX: Final = 20
_PLAIN: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE")


def _told(error: ssl.SSLError) -> str:
    reason = str(error.reason or error.args[-1])
    if "UNKNOWN_CA" in reason or "CERTIFICATE" in reason:
        return f"it does not accept this certificate ({reason})"
    return f"it does not speak TLS ({reason})" if reason in _PLAIN else reason


class FirstToSpeak:
    """One thread calls `wait`, others may refuse and hang up."""

    def __init__(
        self,
        listener: socket.socket,
        token: str = "",
        *,
        tls: ssl.SSLContext | None = None,
        on_refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`on_refused` hears why one was hung up.  With `tls` there has to be a token."""
        if tls is not None and not token:
            raise ValueError("an encrypted connection cannot be looked at before it is read")
        listener.setblocking(False)
        self._listener = listener
        self._greeting = token.encode() + b"\n" if token else b""
        self._tls = tls
        self._on_refused = on_refused
        self._refusals = 0
        self._candidates: dict[socket.socket, bytes] = {}
        self._names: dict[socket.socket, str] = {}
        self._lock = threading.Lock()
        self._chosen: socket.socket | None = None
        self._listening = True
        self._refused = False
        self._hung_up = False
        self._woken, self._waker = socket.socketpair()
        self._ready = selectors.DefaultSelector()
        for one in (self._listener, self._woken):
            self._ready.register(one, selectors.EVENT_READ)

    def wait(self) -> socket.socket | None:
        """The connection; of what it has said only the token was read.

        None if others were refused and all that had connected are gone, or were hung up.  What was
        said by then counts.
        """
        hung_up = False
        while (self._listening or self._candidates) and not hung_up:
            events = [key.fileobj for key, _ in self._ready.select()]
            if self._woken in events:
                hung_up = not self._woken.recv(1)
                self._listen_no_more()
                events = [key.fileobj for key, _ in self._ready.select(0)]
            for one in events:
                if one is self._listener:
                    self._accept()
                elif one in self._candidates and self._counts(one):
                    return self._choose(one)
        return None

    def refuse_others(self) -> None:
        """Those who have not connected yet do not count; idempotent."""
        with self._lock, contextlib.suppress(OSError):  # closed, and no thread waits
            if not self._refused:
                self._refused = True
                self._waker.send(b"\0")

    def hang_up(self) -> None:
        """The connection ends from this side, now or as soon as it is chosen; idempotent."""
        with self._lock:
            self._hung_up = True
            shut_down(self._waker)
            if self._chosen is not None:
                shut_down(self._chosen)

    def close(self) -> None:
        """Gives back everything, once no thread waits; idempotent."""
        self._ready.close()
        for one in (self._listener, self._woken, self._waker, *self._candidates):
            one.close()

    def _listen_no_more(self) -> None:
        """Takes in only those who have connected."""
        if self._listening:
            while self._accept():
                pass
            self._listening = False
            self._ready.unregister(self._listener)
            self._listener.close()

    def _accept(self) -> bool:
        try:
            connection, address = self._listener.accept()
        except OSError:  # the peer is gone
            return False
        connection.setblocking(False)
        if self._tls is not None:
            try:
                connection = self._tls.wrap_socket(
                    connection, server_side=True, do_handshake_on_connect=False
                )
            except (OSError, ValueError):  # it is gone already, or has spoken in plain text
                connection.close()
                return True
        if len(self._candidates) == _CANDIDATES_MAX:
            self._drop(next(iter(self._candidates)))
        self._candidates[connection] = b""
        self._names[connection] = address[0] if isinstance(address, tuple) else "one"
        self._ready.register(connection, selectors.EVENT_READ)
        return True

    def _counts(self, one: socket.socket) -> bool:
        """Whether it has said the token, or anything if there is none; a stranger is dropped."""
        said = self._candidates[one]
        missing = len(self._greeting) - len(said)
        why = "it said another token"
        try:
            if isinstance(one, ssl.SSLSocket):
                one.do_handshake()  # nothing, once it is done
            data = one.recv(missing) if missing else one.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except ssl.SSLError as error:
            data, why = b"", f"TLS failed: {_told(error)}"
        except OSError:
            data = b""
        if not self._greeting:
            counts, stranger = bool(data), not data
        else:
            said += data
            counts = hmac.compare_digest(said, self._greeting)
            stranger = not data or (not counts and (b"\n" in said or not missing - len(data)))
        if stranger:
            if said or why.startswith("TLS"):
                self._refuse(one, why)
            self._drop(one)
        elif not counts:
            self._candidates[one] = said
        return counts

    def _refuse(self, one: socket.socket, why: str) -> None:
        self._refusals += 1
        if self._refusals <= _TOLD_MAX:
            self._on_refused(f"refused {self._names[one]}: {why}")

    def _drop(self, one: socket.socket) -> None:
        self._ready.unregister(one)
        del self._candidates[one], self._names[one]
        one.close()

    def _choose(self, one: socket.socket) -> socket.socket:
        self._ready.unregister(one)
        del self._candidates[one]
        self._listen_no_more()
        for other in list(self._candidates):
            self._drop(other)
        one.setblocking(True)
        prepare(one)
        with self._lock:
            self._chosen = one
            if self._hung_up:
                shut_down(one)
        return one
