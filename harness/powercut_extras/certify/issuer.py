# SPDX-License-Identifier: Apache-2.0
"""Who hands a certificate over: a name, an address, a logo.

All of it comes from a stranger, so it is checked where it comes in and
again where it is read: texts are one line without control characters, and a logo is a small
PNG (RFC 2083) or JPEG (ITU-T T.81) carried in the certificate itself.  No other format is taken: an
SVG may hold scripts and addresses.
"""

from __future__ import annotations

import base64
import binascii
import struct
import unicodedata
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from powercut.model.errors import UsageError
from powercut.model.named_path import openable
from powercut.model.printable import printable
from powercut.model.units import count
from powercut.store.record import Record

LINE_MAX: Final = 120
"""Characters of a text."""

LOGO_MAX_BYTES: Final = 256 << 10
"""Size of a logo's file."""

LOGO_MAX_PIXELS: Final = 2000
"""Width and height of a logo: what it takes to draw grows with them, not with its file."""

_PNG: Final = b"\x89PNG\r\n\x1a\n"
_JPEG: Final = b"\xff\xd8\xff"
_BARE_MARKERS: Final = (0x01, *range(0xD0, 0xD8))
"""JPEG markers without a length after them: TEM, RST0 to RST7."""

_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""JPEG markers of a frame, which say how large the image is."""


def one_line(text: str) -> str:
    """`text` if it is one short line that shows as it is written.  Raises ValueError."""
    if len(text) > LINE_MAX:
        raise ValueError(f"it has {len(text)} characters, and {LINE_MAX} is the most")
    if printable(text) != text or any(unicodedata.category(c) in ("Zl", "Zp") for c in text):
        raise ValueError("it has characters that do not show, or change how others do")
    if "\n" in text or "\t" in text:
        raise ValueError("it has more than one line, or a tabulator")
    return text


def is_logo(uri: str) -> str:
    """`uri` if it is empty or a data URI that holds a logo.  Raises ValueError."""
    if not uri:
        return uri
    head, comma, body = uri.partition(",")
    if not comma or head not in ("data:image/png;base64", "data:image/jpeg;base64"):
        raise ValueError("it is no data URI of a PNG or JPEG")
    try:
        data = base64.b64decode(body, validate=True)
    except binascii.Error as error:
        raise ValueError("it is not base64") from error
    if logo_of(data) != uri:
        raise ValueError("it is another format than it says")
    return uri


Line = Annotated[str, Field(max_length=LINE_MAX), AfterValidator(one_line)]
"""A text of one line."""


class Issuer(Record):
    """Who hands a certificate over."""

    name: Line = ""
    """A person or an organisation."""

    contact: Line = ""
    """Where to ask: an address, a telephone number, a page."""

    logo: Annotated[str, Field(max_length=2 * LOGO_MAX_BYTES), AfterValidator(is_logo)] = ""
    """A PNG or JPEG as a data URI; empty if there is none."""


def read_logo(path: Path) -> str:
    """The image at `path` as a data URI.  Raises UsageError if it cannot be a logo."""
    try:
        with openable(path).open("rb") as file:
            data = file.read(LOGO_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="--logo takes a PNG or JPEG") from error
    try:
        return logo_of(data)
    except ValueError as error:
        raise UsageError(
            f"{path}: {error}",
            hint=f"--logo takes a PNG or JPEG of up to {LOGO_MAX_BYTES >> 10} KiB and "
            f"{LOGO_MAX_PIXELS:,} pixels a side; an SVG has to be drawn as a PNG first",
        ) from error


def logo_of(data: bytes) -> str:
    """The file of an image as a data URI.  Raises ValueError if it cannot be a logo."""
    if len(data) > LOGO_MAX_BYTES:
        raise ValueError(f"it is larger than {LOGO_MAX_BYTES >> 10} KiB")
    if data.startswith(_PNG):
        kind, (width, height) = "png", _size_of_png(data)
    elif data.startswith(_JPEG):
        kind, (width, height) = "jpeg", _size_of_jpeg(data)
    else:
        raise ValueError("it is neither PNG nor JPEG")
    if not (0 < width <= LOGO_MAX_PIXELS and 0 < height <= LOGO_MAX_PIXELS):
        raise ValueError(f"it has {width:,} x {count(height, 'pixel')}")
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def _size_of_png(data: bytes) -> tuple[int, int]:
    """Width and height of a PNG whose chunks are whole and end with the file."""
    chunks = list(_chunks(data))
    names = [name for name, _ in chunks]
    if names[:1] != [b"IHDR"] or names[-1:] != [b"IEND"] or b"IDAT" not in names:
        raise ValueError("it is no whole PNG")
    if len(chunks[0][1]) != 13:
        raise ValueError("its header is not that of a PNG")
    width, height = struct.unpack_from(">II", chunks[0][1])
    return width, height


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Name and content of each chunk, its checksum proved."""
    at = len(_PNG)
    while at < len(data):
        if at + 12 > len(data):
            raise ValueError("it is cut off")
        length, name = struct.unpack_from(">I4s", data, at)
        end = at + 8 + length
        if end + 4 > len(data):
            raise ValueError("it is cut off")
        if struct.unpack_from(">I", data, end)[0] != zlib.crc32(data[at + 4 : end]):
            raise ValueError("a checksum in it is wrong")
        yield name, data[at + 8 : end]
        at = end + 4


def _size_of_jpeg(data: bytes) -> tuple[int, int]:
    """Width and height of a JPEG, from the header of its first frame."""
    if not data.endswith(b"\xff\xd9"):
        raise ValueError("it is no whole JPEG")
    at = 2
    while at + 9 <= len(data):
        if data[at] != 0xFF:
            raise ValueError("it is no JPEG")
        marker = data[at + 1]
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        if marker == 0xFF:  # padding
            at += 1
        elif marker in _BARE_MARKERS:
            at += 2
        else:
            at += 2 + struct.unpack_from(">H", data, at + 2)[0]
    raise ValueError("it is no whole JPEG")
