# SPDX-License-Identifier: Apache-2.0
"""Text of strangers, for a terminal.

A terminal obeys some characters instead of showing them: a guest's console, a cell's name or
an error with a path in it could otherwise paint over a verdict, or write to the clipboard.
"""

from __future__ import annotations

import unicodedata

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
