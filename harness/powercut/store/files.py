# SPDX-License-Identifier: Apache-2.0
"""Files that are either whole or not there, and durable once they are."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from powercut.mapped import stretches
from powercut.model.errors import HostError, UsageError

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


_LINKS_MAX: Final = 40  # as Linux


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
    with host_errors(path):
        _replace(path, data)


def _replace(path: Path, data: bytes) -> None:
    # A new file of a name that cannot be foreseen: in a folder that others may write to, a link
    # laid there beforehand would lead to another file.
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        fsync_path(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_output(path: Path, data: bytes) -> None:
    """Writes what the user wants at `path`; of a regular file never half of it.

    A regular file, or nothing there: replaced in one step, where links lead.  A device, a pipe, or
    a link of /proc to an open file: written to, since a rename would take its place (/dev/null
    would become a file).  Raises UsageError for a folder, HostError.
    """
    try:
        target = _end_of(path)
        if target.is_dir():
            raise UsageError(f"{path}: is a folder", hint="give the name of a file")
        if not target.is_symlink() and (target.is_file() or not target.exists()):
            _replace(target, data)
            return
        # Without O_CREAT: what is written to is what was there.
        out = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_NOCTTY)
        with os.fdopen(out, "wb") as file:
            file.write(data)
    except OSError as error:
        raise HostError(
            f"{path}: cannot be written: {error.strerror}", hint="give another file"
        ) from error


def _end_of(path: Path) -> Path:
    """Where links lead, save those of /proc: an open file may have no name."""
    for _ in range(_LINKS_MAX):
        path = path.parent.resolve() / path.name
        if not path.is_symlink() or path.is_relative_to("/proc"):
            return path
        path = path.parent / path.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


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
        for start, end in stretches(old.fileno(), size):
            _copy_range(old.fileno(), new.fileno(), start, end)


def _copy_range(old: int, new: int, start: int, end: int) -> None:
    while start < end:
        data = os.pread(old, min(1 << 20, end - start), start)
        start += os.pwrite(new, data, start)  # where the disk gets full, it writes a part first


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
