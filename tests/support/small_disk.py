# SPDX-License-Identifier: Apache-2.0
"""A file system with little room, that is really full once it is full."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """`folder` has room for `size` bytes: a mount of root's (marker `mounts`)."""
    folder.mkdir(parents=True)
    mount = shutil.which("mount") or "/bin/mount"
    argv = [mount, "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
    subprocess.run(argv, check=True)
    try:
        room = os.statvfs(folder)
        assert 0 < room.f_blocks * room.f_frsize <= size, f"{folder} is not small: {room}"
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
