# SPDX-License-Identifier: Apache-2.0
"""Where a program of this host comes from: its package, its digest, what it says of itself."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from powercut.model.errors import HostError
from powercut.paths import REBUILD

_TIMEOUT_S: Final = 30.0


@functools.cache
def package_of(path: Path) -> str:
    """Debian package and version that `path` came from, as `name version`; empty if none."""
    if shutil.which("dpkg-query") is None:
        return ""
    # Since Debian 12 dpkg may know a file by its name from before /usr was merged.
    names = {str(path), str(path.resolve()), os.fspath(path.resolve()).removeprefix("/usr")}
    for name in sorted(names, key=len, reverse=True):
        owner = output_of(["dpkg-query", "-S", name], may_fail=True).partition(":")[0]
        if owner:
            return output_of(["dpkg-query", "-W", "-f", "${Package} ${Version}", owner])
    return ""


def output_of(argv: list[str], *, may_fail: bool = False) -> str:
    """What a program prints, without white space around it.  Raises HostError if it fails."""
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=_TIMEOUT_S, check=not may_fail
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise HostError(f"`{' '.join(argv)}` failed: {error}") from error
    return done.stdout.strip()


def sha256_of_file(path: Path) -> str:
    """In hexadecimal.  Raises HostError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise HostError(f"{path}: {error.strerror}", hint=REBUILD) from error
