# SPDX-License-Identifier: Apache-2.0
"""How long root file systems stay in the cache: by their last use, up to a bound.

    CACHE/roots/DIGEST.img    an image for guests (powercut.disk.root_image)
               /DIGEST        the same files as a folder, for User-Mode Linux
               /packages      what apt has fetched, which is never dropped: a list of packages that
                              is there keeps its versions

The time of an entry is that of its last use.  Whenever one is made, those go that were used longest
ago, until the rest takes KEPT_BYTES or less; none goes that was used within IN_USE_S, since a run
under way may need it again.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOTS: Final = "roots"
"""The folder of a cache."""

KEPT_BYTES: Final = 4 << 30
"""What all of them may take together on the host's disk."""

IN_USE_S: Final = 86_400.0
"""An entry that was used within so many seconds stays whatever it takes."""

_PACKAGES: Final = "packages"
_UNFINISHED: Final = ".new-"
_UNLOCKED_S: Final = 60.0  # between the making of such a folder and its lock
_BLOCK: Final = 512  # st_blocks counts these (stat(2))


@dataclass(frozen=True)
class CachedRoot:
    """One entry: what it takes on disk (bytes), and when it was used last (seconds since 1970)."""

    path: Path
    size: int
    used_s: float


def cached_roots(folder: Path) -> list[CachedRoot]:
    """The entries of CACHE/roots, the one that was used longest ago first."""
    return sorted(_entries(folder), key=lambda one: one.used_s)


def packages_size(folder: Path) -> int:
    """Bytes that the fetched packages take."""
    return _size(folder / _PACKAGES)


def mark_used(path: Path) -> None:
    """Says that an entry is used now; one in a cache that may not be written to keeps its time.

    Images that lie elsewhere are another's: theirs stays, too.
    """
    if path.parent.name != ROOTS:
        return
    with suppress(OSError):
        os.utime(path)


@contextmanager
def unfinished(folder: Path) -> Iterator[Path]:
    """A folder in CACHE/roots for a root that is being made: locked as long as it is."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=_UNFINISHED) as scratch:
        held = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield Path(scratch)
        finally:
            os.close(held)


def drop_unfinished(folder: Path, *, now_s: float | None = None) -> None:
    """Removes what processes left that were killed while they made a root."""
    before = (time.time() if now_s is None else now_s) - _UNLOCKED_S
    for path in folder.glob(f"{_UNFINISHED}*"):
        with suppress(OSError):  # another's, locked, or gone
            held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(held).st_mtime < before:
                    shutil.rmtree(path)
            finally:
                os.close(held)


def prune(folder: Path, *, keep: Path | None = None, now_s: float | None = None) -> int:
    """Drops what goes beyond the bound, but neither `keep` nor what is in use; the bytes."""
    now = time.time() if now_s is None else now_s
    entries = cached_roots(folder)
    left, freed = sum(one.size for one in entries), 0
    for one in entries:
        if left <= KEPT_BYTES:
            break
        if one.path != keep and now - one.used_s > IN_USE_S:
            drop(one.path)
            left, freed = left - one.size, freed + one.size
    return freed


def drop(path: Path) -> None:
    """Removes an entry; what uses it already keeps what it has open."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _entries(folder: Path) -> Iterator[CachedRoot]:
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if path.name != _PACKAGES and not path.name.startswith("."):
            with suppress(FileNotFoundError):  # another powercut drops it
                yield CachedRoot(path, _size(path), path.stat().st_mtime)


def _size(path: Path) -> int:
    """0 for what is not there."""
    if not path.exists():
        return 0
    if not path.is_dir():
        return path.stat().st_blocks * _BLOCK
    parts = (Path(folder, name) for folder, _, names in os.walk(path) for name in names)
    return sum(part.lstat().st_blocks for part in parts) * _BLOCK
