# SPDX-License-Identifier: Apache-2.0
"""Files that are either whole or not there, and durable once they are."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from powercut.model.errors import HostError

_REMEDIES: Final = {
    errno.ENOSPC: "free some space there, or give another folder with --results",
    errno.EDQUOT: "free some of your quota there, or give another folder with --results",
    errno.EACCES: "make the folder writable, or give another one with --results",
    errno.EPERM: "make the folder writable, or give another one with --results",
    errno.EROFS: "the file system is read-only: give another folder with --results",
    errno.ENOTDIR: "something that is no folder is in the way: give another with --results",
    errno.EEXIST: "something that is no folder is in the way: give another with --results",
    errno.ENAMETOOLONG: "give a folder with a shorter path with --results",
}


@contextmanager
def host_errors(path: Path) -> Iterator[None]:
    """Turns the OSErrors of its body into HostErrors that name the place and the remedy."""
    try:
        yield
    except OSError as error:
        place = error.filename or path
        raise HostError(
            f"{place}: cannot write results: {error.strerror}",
            hint=_REMEDIES.get(error.errno or 0, "see the message of the operating system"),
        ) from error


@contextmanager
def locked(folder: Path, what: str) -> Iterator[None]:
    """Keeps other processes from working on `what` in `folder`, until its body or we have ended.

    Raises HostError, also if another is at work on it.
    """
    with host_errors(folder):
        file = (folder / ".lock").open("w")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise HostError(
                f"{folder}: another powercut is at work on this {what}",
                hint="wait for it, or end it",
            ) from error
        yield


def fsync_path(path: Path) -> None:
    """Makes a file's contents, or a folder's entries, durable."""
    flags = os.O_RDONLY | (os.O_DIRECTORY if path.is_dir() else 0)
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomic(path: Path, data: bytes) -> None:
    """Writes `path` so that a power cut leaves the old file, or the new one, never a part.

    Durable on return.  Raises HostError.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with host_errors(path):
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            fsync_path(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


def link_or_copy(source: Path, target: Path) -> None:
    """Gives `target` the contents of `source`, which must never change from here on.

    A hard link where the file system can, else a copy with the same holes.
    """
    with host_errors(target):
        try:
            target.hardlink_to(source)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP):
                raise
            copy_sparse(source, target)
        target.chmod(0o444)


def copy_sparse(source: Path, target: Path) -> None:
    """Copies `source` to the new file `target`, with the same holes.  OSErrors come through."""
    with source.open("rb") as old, target.open("xb") as new:
        size = os.fstat(old.fileno()).st_size
        new.truncate(size)
        position = 0
        while position < size:
            try:
                start = os.lseek(old.fileno(), position, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # nothing but a hole is left
                    return
                raise
            position = os.lseek(old.fileno(), start, os.SEEK_HOLE)
            old.seek(start)
            new.seek(start)
            _copy_range(old.fileno(), new.fileno(), start, position)


def _copy_range(old: int, new: int, start: int, end: int) -> None:
    while start < end:
        data = os.pread(old, min(1 << 20, end - start), start)
        os.pwrite(new, data, start)
        start += len(data)


def point_link(link: Path, target: str) -> None:
    """Makes `link` a symbolic link to `target`, in one step."""
    temporary = link.with_name(f".{link.name}.{os.getpid()}.tmp")
    with host_errors(link):
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(target)
        temporary.replace(link)


def remove_tree(path: Path) -> None:
    """Removes a folder and all below it; nothing happens if it is not there."""
    with host_errors(path):
        shutil.rmtree(path, ignore_errors=False) if path.exists() else None
