# SPDX-License-Identifier: Apache-2.0
"""Which recordings this user has made on this host.

A recording names commands: a program and its check.  To judge it again runs them, so it matters who
chose them.  A seal proves no origin: a made-up recording has one, too.  So each recording
that is sealed here gets a mark beside its seal:

    HMAC-SHA256(key, manifest.json)

The key is a file of this user alone, in the folder of their state ($XDG_STATE_HOME, else
~/.local/state), and goes into no recording, no bundle and no report.  Where no such file can be
kept, or others may know it, the key lives in this process's memory: the process knows what it has
recorded itself, and no later one does.  The manifest has the digest of the file that names the
commands, so the mark ends with the first change of either.  A mark may be copied, with the very
recording that it was made for; what that names this user has run before.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from powercut.paths import user_folder

MARK: Final = "made-here"
"""Name of the file beside manifest.json.  It is no evidence and is not sealed."""

_KEY_BYTES: Final = 32
_MARK_MAX: Final = 256
_MANIFEST_MAX: Final = 16 << 20
_PURPOSE: Final = b"powercut: recorded here\n"


class _Process:
    """The key of this process alone, and whether a recording has its mark."""

    key = secrets.token_bytes(_KEY_BYTES)
    marked = False


def mark(folder: Path, manifest: Path) -> None:
    """Says that the recording in `folder`, which has just been sealed, was made here.

    Where the mark cannot be written nothing is said: such a recording is treated as anybody's.
    """
    key = _key(make=True)
    if not key:
        key, _Process.marked = _Process.key, True
    place = folder / MARK
    with suppress(OSError):
        place.unlink(missing_ok=True)
        place.write_text(_mac(key, manifest.read_bytes()) + "\n", encoding="ascii")


def is_marked(folder: Path, manifest: Path) -> bool:
    """Whether this user has sealed, on this host, what `manifest` lists."""
    try:
        with (folder / MARK).open("rb") as file:
            said = file.read(_MARK_MAX)
        with manifest.open("rb") as file:
            listed = file.read(_MANIFEST_MAX)
    except OSError:
        return False
    keys = [key for key in (_key(make=False), _Process.key) if key]
    return any(hmac.compare_digest(said.strip(), _mac(key, listed).encode()) for key in keys)


def unkept() -> str:
    """What a person is told who recorded with a key that ends with this process; else empty."""
    if not _Process.marked:
        return ""
    return (
        "later commands will not know what this one recorded as made here: no key that only you "
        f"know can be kept at {_place()}; set XDG_STATE_HOME to a folder of yours"
    )


def _mac(key: bytes, manifest: bytes) -> str:
    return hmac.new(key, _PURPOSE + manifest, hashlib.sha256).hexdigest()


def _place() -> Path:
    return user_folder("XDG_STATE_HOME", "~/.local/state") / "powercut" / "recordings.key"


def _key(*, make: bool) -> bytes:
    """The key of the file; empty if there is none, or none that only this user can know."""
    path = _place()
    key = _read(path)
    if key or not make:
        return key
    with suppress(OSError):
        _write(path)
    return _read(path)


def _read(path: Path) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        status = os.fstat(handle)
        private = stat.S_ISREG(status.st_mode) and not status.st_mode & 0o077
        # As root in another user's home: that user knows the key, and root is not who they are.
        if not private or status.st_uid != os.geteuid():
            return b""
        key = os.read(handle, _KEY_BYTES + 1)
    finally:
        os.close(handle)
    return key if len(key) == _KEY_BYTES else b""


def _write(path: Path) -> None:
    """Makes the key whole or not at all; of two who do so at once, the first one's stays."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, unfinished = tempfile.mkstemp(dir=path.parent)  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(unfinished, path)
    finally:
        Path(unfinished).unlink(missing_ok=True)
