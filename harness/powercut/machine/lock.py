# SPDX-License-Identifier: Apache-2.0
"""A lock between processes that is gone with whoever held it."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from powercut.model.errors import DeadlineExceeded, HostError
from powercut.paths import NOT_WRITABLE

_POLL_S: Final = 0.05


@contextmanager
def locked(file: Path, *, deadline: float, doing: str) -> Iterator[None]:
    """Holds `file`, which is made if it is not there; its folder, too.

    `deadline` is on time.monotonic().  Raises DeadlineExceeded, saying what the other
    process has been `doing`, and HostError if the file cannot be made.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = file.open("w")
    except OSError as error:
        raise HostError(f"cannot use {file.parent}: {error.strerror}", hint=NOT_WRITABLE) from None
    with handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise DeadlineExceeded(
                        f"another process has been {doing} all the time",
                        hint=f"look for it: fuser -v {file}",
                    ) from None
                time.sleep(_POLL_S)
        yield
