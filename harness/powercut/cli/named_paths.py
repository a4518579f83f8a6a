# SPDX-License-Identifier: Apache-2.0
"""Which errors of the operating system are about a path that the user named."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from powercut.model.errors import UsageError
from powercut.model.named_path import shown

_NO_NAMES = (errno.ENAMETOOLONG, errno.ELOOP)
"""What no name of powercut's own is: the path, or a part of it, is the user's."""


def mistake_of(error: BaseException, words: Sequence[str]) -> UsageError | None:
    """The user's mistake that `error` is on a command line of these words; None if it is none.

    It is one if its path is one of them, or lies above or below one.
    """
    if not isinstance(error, OSError):
        return None
    place = error.filename2 or error.filename
    if not isinstance(place, str | bytes) or not place:
        return None
    path = Path(os.fsdecode(place)).absolute()
    named = (word.partition("=")[2] if word.startswith("--") else word for word in words)
    if error.errno not in _NO_NAMES and not any(_along(path, word) for word in named if word):
        return None
    return UsageError(
        f"{shown(os.fsdecode(place))}: {error.strerror}", hint="name another path, or mend this one"
    )


def _along(path: Path, word: str) -> bool:
    named = Path(word).absolute()
    return path.is_relative_to(named) or named.is_relative_to(path)
