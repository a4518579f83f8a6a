# SPDX-License-Identifier: Apache-2.0
"""Which files a check has read: by the kernel's own note of it, the time of the last access.

Each file's access is dated to 1970 before the check.  A read, or a mapping, dates it anew, under
`relatime`, too: the date lies before that of the last change (mount(8)).  A file system that keeps
no such dates (`noatime`) is found by a try.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from powercut.model.named_path import files_below
from powercut.store.files import host_errors


def forget_reads(folder: Path) -> None:
    """As if no file in `folder` had ever been read.  Raises HostError."""
    with host_errors(folder):
        for path in _files(folder):
            os.utime(path, ns=(0, path.stat().st_mtime_ns))


def never_read(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Those of `paths` that were not read since; what is gone was looked at."""
    return tuple(path for path in paths if _is_file(path) and path.stat().st_atime_ns == 0)


def keeps_dates(folder: Path) -> bool:
    """Whether the file system of `folder` dates reads.  Raises HostError."""
    tried = folder / ".powercut-reads"
    with host_errors(tried):
        try:
            tried.write_bytes(b"x")
            forget = tried.stat().st_mtime_ns
            os.utime(tried, ns=(0, forget))
            tried.read_bytes()
            return tried.stat().st_atime_ns != 0
        finally:
            tried.unlink(missing_ok=True)


def _files(folder: Path) -> Iterable[Path]:
    return [path for path in files_below(folder, "*", of_results=False) if _is_file(path)]


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False
