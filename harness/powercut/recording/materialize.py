# SPDX-License-Identifier: Apache-2.0
"""Crash states of disks as image files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from powercut.crash.applied import AppliedWrite
from powercut.crash.states import CrashState
from powercut.disk.growing_file import cut_to_size
from powercut.model.errors import DamagedRecording, UsageError
from powercut.recording.disk import DiskRecording
from powercut.store.files import copy_sparse, host_errors

_BLOCK: Final = 1 << 20


@dataclass(frozen=True)
class Materialized:
    """An image that was written: where, of how many bytes, and their SHA-256."""

    path: Path
    size: int
    sha256: str


def materialize(
    recording: DiskRecording, state: CrashState, path: Path, *, force: bool = False
) -> Materialized:
    """Writes the disk that `state` is to `path`, with holes where nothing was ever written.

    Raises UsageError if `path` exists and `force` is not given, HostError if it cannot be
    written, and DamagedRecording if the base image is not that of the recorded disk.
    """
    if path.exists() and (not force or not path.is_file()):
        raise UsageError(
            f"{path}: exists already",
            hint="give another name, or --force" if path.is_file() else "give the name of a file",
        )
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with host_errors(path):
        try:
            write_image(recording, recording.space.image_writes(state), unfinished)
            with unfinished.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
    return Materialized(path, path.stat().st_size, digest)


def write_image(recording: DiskRecording, writes: Sequence[AppliedWrite], path: Path) -> None:
    """Base image and `writes`, in order, as the new file `path`: the disk, or the image file that
    grows on it.  OSErrors are the caller's.
    """
    size = recording.timeline.disk_size
    found = recording.base.stat().st_size
    if found != size:
        raise DamagedRecording(f"{recording.base}: {found} bytes, but the recorded disk has {size}")
    copy_sparse(recording.base, path)
    with path.open("r+b") as image:
        target = image.fileno()
        for write in writes:
            if write.data is None:
                end = write.offset + write.length
                _on_data(target, write.offset, end, lambda at, d: _put(target, at, bytes(len(d))))
            else:
                _put(target, write.offset, write.data.tobytes())
    if recording.system.parameters.machine.grows:
        cut_to_size(path)


def _on_data(fd: int, begin: int, end: int, act: Callable[[int, bytes], None]) -> None:
    """Calls `act` with the bytes of every part of the file that is no hole."""
    while begin < end:
        try:
            begin = os.lseek(fd, begin, os.SEEK_DATA)
        except OSError:  # ENXIO: only a hole is left
            return
        stop = min(os.lseek(fd, begin, os.SEEK_HOLE), end)
        while begin < stop:
            data = os.pread(fd, min(_BLOCK, stop - begin), begin)
            act(begin, data)
            begin += len(data)


def _put(fd: int, offset: int, data: bytes) -> None:
    while data:
        written = os.pwrite(fd, data, offset)
        data, offset = data[written:], offset + written
