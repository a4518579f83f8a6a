# SPDX-License-Identifier: Apache-2.0
"""Text of strangers, for a terminal.

A terminal obeys some characters instead of showing them: a guest's console, a cell's name or
an error with a path in it could otherwise paint over a verdict, or write to the clipboard.
"""

from __future__ import annotations

import json
import shlex
import unicodedata
from typing import Any, Final

from powercut.model.named_path import shown

_KEPT = "\n\t"
_OBEYED = ("Cc", "Cs")
"""Controls (C0 and C1), and surrogates, which cannot be written at all."""

_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""What turns the direction of the text around it (Unicode Annex 9)."""


def printable(text: str) -> str:
    """`text` with escapes in place of every character that a terminal obeys."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(character) for character in text)


def _shown(character: str) -> str:
    if character in _KEPT:
        return character
    if character in _TURNING or unicodedata.category(character) in _OBEYED:
        return character.encode("unicode-escape").decode()
    return character


# JSON that somebody else wrote.


def parse_json(text: str | bytes | bytearray) -> Any:
    """The value in `text`.  Raises ValueError for what is no JSON, or too deep to be read."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("brackets within brackets, too many to read") from None


# Command lines that a user wrote as one string.

_SHOWN_MAX: Final = 60


def words_of(text: str) -> tuple[str, ...]:
    """Its words, split as a shell does.  Raises ValueError that says what is wrong."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        words = shown(text, _SHOWN_MAX)
        raise ValueError(f"not a command line: {str(error).lower()}: {words}") from None
