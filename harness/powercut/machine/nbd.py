# SPDX-License-Identifier: Apache-2.0
"""Asks an NBD server what it exports, without opening the disk for use.

Follows doc/proto.md of the NBD project: fixed newstyle handshake, NBD_OPT_INFO.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from powercut.model.errors import HostError, UsageError

_GREETING: Final = struct.Struct(">8s8sH")
_OPTION: Final = struct.Struct(">8sII")
_REPLY: Final = struct.Struct(">QIII")
_EXPORT: Final = struct.Struct(">HQH")
_REPLY_MAGIC: Final = 0x3E889045565A9
_OPT_ABORT: Final = 2
_OPT_INFO: Final = 6
_REP_ACK: Final = 1
_REP_INFO: Final = 3
_REP_ERROR: Final = 1 << 31
_INFO_EXPORT: Final = 0
_FLAG_SEND_FLUSH: Final = 1 << 2
_FLAG_SEND_FUA: Final = 1 << 3


@dataclass(frozen=True)
class NbdExport:
    """What a server offers; `size` in bytes."""

    size: int
    offers_flush: bool
    offers_fua: bool


def examine(path: Path, *, timeout_s: float, name: str = "") -> NbdExport:
    """The export `name`, or the default one, of the server that listens on the unix socket `path`.

    Raises HostError if there is none or it does not speak NBD.
    """
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.settimeout(timeout_s)
            server.connect(str(path))
            return _examine(server, name.encode())
    except (OSError, EOFError, ValueError) as error:
        raise HostError(
            f"no usable NBD server on {path}: {str(error) or 'it hung up'}",
            hint="the disk must be started before the machine",
        ) from None


def examine_for(path: Path, *, no_flush: bool, timeout_s: float, name: str = "") -> NbdExport:
    """The same, for a QEMU whose cache mode drops flushes if `no_flush`.

    Raises UsageError where that would have no effect.
    """
    export = examine(path, timeout_s=timeout_s, name=name)
    if no_flush and (export.offers_flush or export.offers_fua):
        raise UsageError(
            "cache=unsafe would have no effect: QEMU sends flushes and FUA to an NBD disk"
            " that offers them, whatever its cache mode",
            hint="let the disk offer no flush and no FUA, so that QEMU drops the guest's,"
            " or use an image file",
        )
    return export


def _examine(server: socket.socket, name: bytes) -> NbdExport:
    magic, option_magic, flags = _GREETING.unpack(_receive(server, _GREETING.size))
    if magic != b"NBDMAGIC" or option_magic != b"IHAVEOPT" or not flags & 1:
        raise ValueError("no fixed newstyle NBD handshake")
    server.sendall(struct.pack(">I", flags & 3))
    name_and_requests = struct.pack(f">I{len(name)}sH", len(name), name, 0)
    server.sendall(_OPTION.pack(b"IHAVEOPT", _OPT_INFO, len(name_and_requests)))
    server.sendall(name_and_requests)
    export = None
    while True:
        reply_magic, _, kind, length = _REPLY.unpack(_receive(server, _REPLY.size))
        data = _receive(server, length)
        if reply_magic != _REPLY_MAGIC:
            raise ValueError("malformed reply")
        if kind & _REP_ERROR:
            raise ValueError(f"refused with {kind:#x}: {data.decode('utf-8', 'replace')}")
        if kind == _REP_INFO and data[:2] == struct.pack(">H", _INFO_EXPORT):
            _, size, offers = _EXPORT.unpack(data)
            export = NbdExport(size, bool(offers & _FLAG_SEND_FLUSH), bool(offers & _FLAG_SEND_FUA))
        if kind == _REP_ACK:
            break
    server.sendall(_OPTION.pack(b"IHAVEOPT", _OPT_ABORT, 0))
    if export is None:
        raise ValueError("the server does not say how large its export is")
    return export


def _receive(server: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = server.recv(count - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data
