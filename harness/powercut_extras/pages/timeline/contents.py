# SPDX-License-Identifier: Apache-2.0
"""Where the contents of a file in a state begin to differ from those with nothing missing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from powercut.crash.folder import FileState, FolderSpace

COMPARED_MAX: Final = 1 << 20
"""Bytes of a file that are compared."""

FILES_MAX: Final = 40
_BEFORE: Final = 8
_SHOWN: Final = 48
_PIECE: Final = 1 << 12

Part = tuple[int, bytes]


@dataclass(frozen=True)
class Excerpt:
    """The first bytes that differ, at the byte `at` of the file, and a few before: text where both
    sides are text, else hexadecimal."""

    at: int
    there: str
    whole: str


def excerpt(there: bytes, whole: bytes) -> Excerpt | None:
    """None if they are alike as far as they are compared."""
    if there == whole:
        return None
    first = _first_difference(there, whole)
    begin = max(first - _BEFORE, 0)
    sides = [data[begin : begin + _SHOWN] for data in (there, whole)]
    shown = [_text(side) for side in sides]
    if None in shown:
        shown = [side.hex(" ") for side in sides]
    return Excerpt(first, *(_or_end(side) for side in shown))


def _first_difference(one: bytes, other: bytes) -> int:
    shorter = min(len(one), len(other))
    for at in range(0, shorter, _PIECE):
        pieces = one[at : min(at + _PIECE, shorter)], other[at : min(at + _PIECE, shorter)]
        if pieces[0] != pieces[1]:
            return at + next(i for i, (a, b) in enumerate(zip(*pieces, strict=True)) if a != b)
    return shorter


def _text(data: bytes) -> str | None:
    """As a person reads it, on one line; None for what is no text."""
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        return None
    plain = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
    return plain if plain.isprintable() else None


def _or_end(side: str | None) -> str:
    return side or "(the end of the file)"


def contents_of(space: FolderSpace, file: FileState) -> bytes:
    """The first bytes of a file in a state of a folder."""
    made = bytearray()
    for part in file.parts:
        if isinstance(part, int):
            _resize(made, part)
            continue
        row, begin, end = part
        end = min(end, COMPARED_MAX)
        if begin >= end:
            continue
        request = space.rows[row].request
        data = bytes(end - begin)
        if request.data_offset >= 0:
            start = begin - request.offset
            data = space.folder.payload(request)[start : start + end - begin].tobytes()
        _put(made, begin, data)
    _resize(made, file.size)
    return bytes(made)


def laid_out(parts: Iterable[Part]) -> bytes:
    """A file of its parts, each with its place in it; zeroes between them."""
    made = bytearray()
    for begin, data in parts:
        if begin < COMPARED_MAX:
            _put(made, begin, data[: COMPARED_MAX - begin])
    return bytes(made)


def _put(made: bytearray, begin: int, data: bytes) -> None:
    if len(made) < begin + len(data):
        made.extend(bytes(begin + len(data) - len(made)))
    made[begin : begin + len(data)] = data


def _resize(made: bytearray, size: int) -> None:
    size = min(size, COMPARED_MAX)
    del made[size:]
    made.extend(bytes(size - len(made)))
