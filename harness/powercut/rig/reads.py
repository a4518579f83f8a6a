# SPDX-License-Identifier: Apache-2.0
"""Which files a check has read: by the kernel's own notes of it.

Each file's access is dated to 1970 before the check.  A read, or a mapping, dates it anew, under
`relatime`, too: the date lies before that of the last change (mount(8)).  A file system that keeps
no such dates (`noatime`) is found by a try.  A read of a file that was opened with O_NOATIME is
told by inotify(7) alone, which is told of no mapping.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from powercut.model.named_path import files_below
from powercut.store.files import host_errors

_EVENT: Final = struct.Struct("iIII")
_IN_ACCESS: Final = 0x1
_IN_ONESHOT: Final = 0x80000000
_EVENTS: Final = 1 << 16
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def noting_reads(
    folder: Path, written: Sequence[Path]
) -> Iterator[Callable[[], tuple[Path, ...] | None]]:
    """What a check is run in.  The call tells which of the files `written`, in `folder`, it has
    not read so far; None if that is not known.  What is gone was looked at.  Raises HostError."""
    if not written or not _keeps_dates(folder.parent):
        yield lambda: () if not written else None
        return
    watch = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        numbers = {_watched(watch, path): path for path in written}
        _forget_reads(folder)
        noted: set[Path] = set()

        def unread() -> tuple[Path, ...]:
            noted.update(numbers[one] for one in _told(watch) if one in numbers)
            return tuple(path for path in written if path not in noted and _is_dated_back(path))

        yield unread
    finally:
        if watch >= 0:
            os.close(watch)


def _watched(watch: int, path: Path) -> int:
    """The number by which its first read is told; below 0 if none will be."""
    number: int = _libc.inotify_add_watch(
        watch, os.fsencode(path), ctypes.c_uint32(_IN_ACCESS | _IN_ONESHOT)
    )
    return number


def _told(watch: int) -> Iterator[int]:
    while True:
        try:
            data = os.read(watch, _EVENTS)
        except OSError:  # no more; or there is no inotify
            return
        at = 0
        while at < len(data):
            number, mask, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size + length
            if mask & _IN_ACCESS:
                yield number


def _forget_reads(folder: Path) -> None:
    """As if no file in `folder` had ever been read.  Raises HostError."""
    with host_errors(folder):
        for path in files_below(folder, "*", of_results=False):
            if _is_file(path):
                os.utime(path, ns=(0, path.stat().st_mtime_ns))


def _is_dated_back(path: Path) -> bool:
    return _is_file(path) and path.stat().st_atime_ns == 0


def _keeps_dates(folder: Path) -> bool:
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


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False
