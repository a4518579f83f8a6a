# SPDX-License-Identifier: Apache-2.0
"""A small NBD client for tests: one request at a time, or many in flight.

Follows doc/proto.md of the NBD project: fixed newstyle handshake with NBD_OPT_GO, then
simple replies.
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Final

from powercut.closing import Closing
from powercut.model.errors import HostError

_GREETING: Final = struct.Struct(">8s8sH")
_OPTION: Final = struct.Struct(">8sII")
_OPTION_REPLY: Final = struct.Struct(">QIII")
_REQUEST: Final = struct.Struct(">IHHQQI")
_REPLY: Final = struct.Struct(">IIQ")
_OPTION_REPLY_MAGIC: Final = 0x3E889045565A9
_REQUEST_MAGIC: Final = 0x25609513
_REPLY_MAGIC: Final = 0x67446698
_FIXED_NEWSTYLE_NO_ZEROES: Final = 3
_OPT_GO: Final = 7
_REP_ACK: Final = 1
_REP_INFO: Final = 3
_INFO_EXPORT: Final = 0
_READ, _WRITE, _DISC, _FLUSH, _TRIM, _WRITE_ZEROES = 0, 1, 2, 3, 4, 6
_FLAG_FUA: Final = 1
_FLAG_NO_HOLE: Final = 2


class NbdError(OSError):
    """The server answered a request with an error; `errno` is the protocol's."""


class NbdClient(Closing):
    """A connection.  `begin_*` only sends; `finish` waits for the answer to one request."""

    def __init__(self, path: Path, *, timeout_s: float = 20.0) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        self._handle = 0
        self._reads: dict[int, int] = {}
        self._done: dict[int, tuple[int, bytes]] = {}
        self.size = 0
        self.flags = 0
        try:
            self._socket.connect(str(path))
            self._negotiate()
        except OSError as error:
            self._socket.close()
            raise HostError(f"no NBD server at {path}: {error}") from None

    def _negotiate(self) -> None:
        self._receive(_GREETING.size)
        self._socket.sendall(struct.pack(">I", _FIXED_NEWSTYLE_NO_ZEROES))
        body = struct.pack(">IH", 0, 0)
        self._socket.sendall(_OPTION.pack(b"IHAVEOPT", _OPT_GO, len(body)) + body)
        kind = 0
        while kind != _REP_ACK:
            magic, _, kind, length = _OPTION_REPLY.unpack(self._receive(_OPTION_REPLY.size))
            answer = self._receive(length)
            if magic != _OPTION_REPLY_MAGIC or kind not in (_REP_ACK, _REP_INFO):
                raise ConnectionError(f"the server refused: {kind:#x} {answer!r}")
            if kind == _REP_INFO and struct.unpack(">H", answer[:2])[0] == _INFO_EXPORT:
                _, self.size, self.flags = struct.unpack(">HQH", answer)

    def _receive(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            part = self._socket.recv(count - len(received))
            if not part:
                raise ConnectionError("the server closed the connection")
            received += part
        return bytes(received)

    def _begin(
        self, command: int, offset: int, length: int, flags: int = 0, data: bytes = b""
    ) -> int:
        self._handle += 1
        header = _REQUEST.pack(_REQUEST_MAGIC, flags, command, self._handle, offset, length)
        self._socket.sendall(header + data)
        if command == _READ:
            self._reads[self._handle] = length
        return self._handle

    def begin_write(self, offset: int, data: bytes, *, fua: bool = False) -> int:
        """Submits a write; returns what `finish` wants."""
        return self._begin(_WRITE, offset, len(data), _FLAG_FUA if fua else 0, data)

    def begin_flush(self) -> int:
        """Submits a flush."""
        return self._begin(_FLUSH, 0, 0)

    def finish(self, handle: int) -> bytes:
        """Waits until that request is answered; returns what it read.

        Raises NbdError if it failed, ConnectionError or TimeoutError if no answer comes.
        """
        while handle not in self._done:
            magic, error, answered = _REPLY.unpack(self._receive(_REPLY.size))
            if magic != _REPLY_MAGIC:
                raise ConnectionError("the server sent no simple reply")
            length = self._reads.pop(answered, 0)
            self._done[answered] = (error, b"" if error else self._receive(length))
        error, data = self._done.pop(handle)
        if error:
            raise NbdError(error, "the NBD server answered with an error")
        return data

    def read(self, offset: int, length: int) -> bytes:
        """Reads; splits nothing."""
        return self.finish(self._begin(_READ, offset, length))

    def read_all(self, *, step: int = 1 << 20) -> bytes:
        """The whole disk."""
        starts = range(0, self.size, step)
        return b"".join(self.read(at, min(step, self.size - at)) for at in starts)

    def write(self, offset: int, data: bytes, *, fua: bool = False) -> None:
        """Writes and waits for completion."""
        self.finish(self.begin_write(offset, data, fua=fua))

    def zero(self, offset: int, length: int, *, fua: bool = False, may_trim: bool = True) -> None:
        """Writes zeroes."""
        flags = (_FLAG_FUA if fua else 0) | (0 if may_trim else _FLAG_NO_HOLE)
        self.finish(self._begin(_WRITE_ZEROES, offset, length, flags))

    def trim(self, offset: int, length: int, *, fua: bool = False) -> None:
        """Discards."""
        self.finish(self._begin(_TRIM, offset, length, _FLAG_FUA if fua else 0))

    def flush(self) -> None:
        """Flushes and waits for completion."""
        self.finish(self.begin_flush())

    def close(self) -> None:
        """Says goodbye and hangs up; idempotent."""
        if self._socket.fileno() >= 0:
            try:
                self._begin(_DISC, 0, 0)
            except OSError:
                pass  # the server is gone, or was cut: there is nobody to say it to
            finally:
                self._socket.close()
