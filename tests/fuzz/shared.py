# SPDX-License-Identifier: Apache-2.0
"""What targets share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import google_crc32c


@contextmanager
def folder() -> Iterator[Path]:
    """A folder in memory, where there is one."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield Path(made)


def text_of(data: bytes) -> str:
    """The bytes as text."""
    return data.decode("utf-8", "replace")


def crc(data: bytes | bytearray) -> bytes:
    """CRC-32C, as it stands in a file."""
    return int(google_crc32c.value(bytes(data))).to_bytes(4, "little")
