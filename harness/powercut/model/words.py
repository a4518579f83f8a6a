# SPDX-License-Identifier: Apache-2.0
"""Command lines that a user wrote as one string."""

from __future__ import annotations

import shlex
from typing import Final

from powercut.model.named_path import shown

_SHOWN_MAX: Final = 60


def words_of(text: str) -> tuple[str, ...]:
    """Its words, split as a shell does.  Raises ValueError that says what is wrong."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        words = shown(text, _SHOWN_MAX)
        raise ValueError(f"not a command line: {str(error).lower()}: {words}") from None
