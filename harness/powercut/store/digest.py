# SPDX-License-Identifier: Apache-2.0
"""The digest of evidence: of its content alone, and of a sparse image in no time.

Of a file of up to `WHOLE_MAX` bytes it is its SHA-256.  Of a larger one it is the SHA-256 of the
SHA-256 digests (32 bytes each) of its parts of `PART` bytes, the last of which may be shorter.
A part of nothing but zeroes has a digest that is known, so a hole is never read.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import os
from pathlib import Path
from typing import Final

from powercut.model.named_path import openable

WHOLE_MAX: Final = 64 << 20
PART: Final = 1 << 20


class ContentDigest:
    """The digest of `size` bytes that come one after the other."""

    def __init__(self, size: int) -> None:
        self._whole = hashlib.sha256()
        self._parted = size > WHOLE_MAX
        self._part = bytearray()

    def update(self, data: bytes | memoryview) -> None:
        """Takes the next bytes."""
        if not self._parted:
            self._whole.update(data)
            return
        self._part += data
        while len(self._part) >= PART:
            self._add(bytes(self._part[:PART]))
            del self._part[:PART]

    def skip(self, zeroes: int) -> None:
        """Takes so many zeroes."""
        while zeroes:
            if self._parted and not self._part and zeroes >= PART:
                self._whole.update(_of_zeroes(PART) * (zeroes // PART))
                zeroes %= PART
                continue
            step = min(zeroes, PART - len(self._part))
            self.update(bytes(step))
            zeroes -= step

    def hexdigest(self) -> str:
        """The digest, once all bytes were taken."""
        if self._part:
            self._add(bytes(self._part))
            self._part.clear()
        return self._whole.hexdigest()

    def _add(self, part: bytes) -> None:
        zeroes = part.count(0) == len(part)  # takes less time than its digest
        self._whole.update(_of_zeroes(len(part)) if zeroes else hashlib.sha256(part).digest())


@functools.lru_cache(maxsize=4)
def _of_zeroes(count: int) -> bytes:
    return hashlib.sha256(bytes(count)).digest()


def file_digest(path: Path) -> str:
    """The digest of a file; its holes are not read.  Raises OSError."""
    with openable(path).open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        digest = ContentDigest(size)
        at = 0
        while at < size:
            data, end = _data(file.fileno(), at, size)
            digest.skip(data - at)
            at = data
            while at < end:
                block = os.pread(file.fileno(), min(PART, end - at), at)
                if not block:
                    raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
                digest.update(block)
                at += len(block)
    return digest.hexdigest()


def _data(fd: int, at: int, size: int) -> tuple[int, int]:
    """Where the next bytes that are no hole begin, and where these end."""
    try:
        begin = os.lseek(fd, at, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:  # nothing but a hole is left
            return size, size
        return at, size  # a file system without holes
    return min(begin, size), min(os.lseek(fd, begin, os.SEEK_HOLE), size)
