# SPDX-License-Identifier: Apache-2.0
"""A file with holes."""

from __future__ import annotations

from pathlib import Path


def sparse(path: Path, written: dict[int, bytes], size: int) -> Path:
    """Makes `path` a file of `size` bytes that has what was `written`, by offset, and holes."""
    with path.open("wb") as file:
        file.truncate(size)
        for offset, data in written.items():
            file.seek(offset)
            file.write(data)
    return path
