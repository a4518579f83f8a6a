# SPDX-License-Identifier: Apache-2.0
"""A file system with little room, that is really full once it is full."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """`folder` has room for `size` bytes; PermissionError if this user may mount nothing."""
    folder.mkdir(parents=True)
    mount = shutil.which("mount") or "/bin/mount"
    argv = [mount, "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PermissionError(done.stderr.strip())
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
