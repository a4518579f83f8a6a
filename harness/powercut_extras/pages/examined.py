# SPDX-License-Identifier: Apache-2.0
"""What was read of folders that have not changed since, for a server that is asked repeatedly.

A folder counts as unchanged if each file in it has the name, size, inode and time of change (ctime,
which no program can set back) that it had, and the file that names it the same digest.  A file
system's clock ticks every few milliseconds; so what changed less than two seconds before it was
read may change again unseen, and is read again.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

Read = TypeVar("Read")
Print = tuple[str, tuple[tuple[str, int, int, int], ...]]

_SETTLED_NS: Final = 2_000_000_000


class Unchanged(Generic[Read]):
    """Keeps what was read of each folder until something in it changes; threads may share it."""

    def __init__(
        self, now_ns: Callable[[], int] = time.time_ns, *, most: int | None = None
    ) -> None:
        """`most` folders are kept, those that were read last; None: all."""
        self._now_ns = now_ns
        self._most = most
        self._known: dict[Path, tuple[Print, Read]] = {}
        self._lock = threading.Lock()

    def read(self, file: Path, how: Callable[[], Read]) -> Read:
        """What `how` reads of the folder of `file`, unless that is known."""
        before = _print(file)
        with self._lock:
            known = self._known.get(file)
        if known is not None and known[0] == before:
            return known[1]
        begun = self._now_ns()
        found = how()
        newest = max((changed for _, _, _, changed in before[1]), default=0)
        if newest < begun - _SETTLED_NS and _print(file) == before:
            with self._lock:
                self._known.pop(file, None)
                self._known[file] = (before, found)
                if self._most is not None and len(self._known) > self._most:
                    del self._known[next(iter(self._known))]
        return found


def _print(file: Path) -> Print:
    """What tells whether something in the folder of `file` has changed."""
    files = []
    for folder, _, names in os.walk(file.parent):
        for name in names:
            path = Path(folder, name)
            try:
                found = path.stat()
            except OSError:  # a link to nowhere, or gone meanwhile
                files.append((str(path), -1, -1, 0))
                continue
            files.append((str(path), found.st_size, found.st_ino, found.st_ctime_ns))
    digest = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
    return digest, tuple(sorted(files))
