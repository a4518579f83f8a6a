# SPDX-License-Identifier: Apache-2.0
"""A file that grows, on a captured disk of fixed size (docs/formats/growing-file.md).

An image file that a hypervisor makes longer has two things at stake: its bytes and its size.  The
captured disk has both: the file's bytes from its beginning, and in its last `TABLE` bytes
a sector for each change of size.  So a power cut leaves or takes a change of size as it does a
write, and crash states of the disk are crash states of the file.

harness/capture/growing_file.c presents such a disk as that file; `cut_to_size` makes one of an
image of the disk.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Final

import numpy as np

from powercut.model.errors import DamagedRecording, HostError

_SECTOR: Final = 512
_SIZES: Final = 32768
TABLE: Final = _SECTOR * _SIZES
"""Bytes of the table of sizes."""

_MAGIC: Final = b"PCUTSIZE"
_ENTRY: Final = struct.Struct("<8sQQ")  # magic, size in bytes, its bits inverted
_ALL: Final = (1 << 64) - 1
_ALIGN: Final = 4096
_ROOM: Final = 64 << 20


def disk_size(file_size: int, guest_size: int) -> int:
    """Bytes of a disk for an image file of `file_size`, whose guest's disk has `guest_size`.

    The file can grow by twice the guest's disk and 64 MiB: blocks come in up to 32 MiB.
    """
    return -(-(file_size + 2 * guest_size + _ROOM) // _ALIGN) * _ALIGN + TABLE


def put_on_disk(image: Path, guest_size: int) -> None:
    """Makes of the image file the disk that it lies on.  Raises OSError."""
    size = image.stat().st_size
    whole = disk_size(size, guest_size)
    with image.open("r+b") as file:
        file.truncate(whole)
        file.seek(whole - TABLE)
        file.write(_ENTRY.pack(_MAGIC, size, size ^ _ALL))


def size_on_disk(image: Path) -> int:
    """How long the file is that lies on the disk.

    Raises DamagedRecording if no size is there, HostError if it cannot be read.
    """
    try:
        with image.open("rb") as file:
            room = file.seek(0, os.SEEK_END) - TABLE
            table = b""
            if room > 0:
                file.seek(room)
                table = file.read(TABLE)
    except OSError as error:
        raise HostError(f"{image}: {error.strerror}") from error
    words = np.frombuffer(table, dtype="<u8").reshape(-1, _SECTOR // 8)
    (magic,) = np.frombuffer(_MAGIC, dtype="<u8")
    sizes = words[(words[:, 0] == magic) & (words[:, 1] == ~words[:, 2]), 1]
    if not len(sizes) or int(sizes.max()) > room:
        raise DamagedRecording(f"{image}: no file that grows is on this disk")
    return int(sizes.max())


def cut_to_size(image: Path) -> None:
    """Makes of a disk the file that lies on it, in place.

    Raises DamagedRecording if there is none, HostError if it cannot be written.
    """
    size = size_on_disk(image)
    try:
        os.truncate(image, size)
    except OSError as error:
        raise HostError(f"{image}: {error.strerror}") from error
