# SPDX-License-Identifier: Apache-2.0
"""Files as a tar that is sent while it is made (POSIX pax)."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_CHUNK: Final = 1 << 18


def tar_of(members: Mapping[str, Path]) -> Iterator[bytes]:
    """A tar with these files, by their names in it.  Raises OSError."""
    for name, source in members.items():
        info = tarfile.TarInfo(name)
        status = source.stat()
        info.size, info.mode = status.st_size, 0o755 if status.st_mode & 0o100 else 0o644
        yield info.tobuf(tarfile.PAX_FORMAT)
        with source.open("rb") as file:
            while data := file.read(_CHUNK):
                yield data
        yield bytes(-info.size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)
