# SPDX-License-Identifier: Apache-2.0
"""Images of a few bytes, made by hand."""

from __future__ import annotations

import struct
import zlib


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png(width: int = 8, height: int = 8, more: bytes = b"") -> bytes:
    rows = zlib.compress((b"\0" + b"\x20\x40\x80" * width) * height)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header) + more + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def jpeg(width: int = 8, height: int = 8, frame: int = 0xC0) -> bytes:
    """The markers of a JPEG; nothing here decodes its scan."""
    app = b"\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0" + bytes(9)
    head = struct.pack(">HBHHB", 11, 8, height, width, 1) + bytes(3)
    return b"\xff\xd8" + app + b"\xff\xff" + bytes([frame]) + head + b"\xff\xda\0\2x\xff\xd9"
