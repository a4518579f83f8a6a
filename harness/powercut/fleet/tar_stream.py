# SPDX-License-Identifier: Apache-2.0
"""Files as a tar that is sent while it is made (POSIX pax), and one that a stranger sends."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_CHUNK: Final = 1 << 18


def tar_of(members: Mapping[str, Path | bytes]) -> Iterator[bytes]:
    """A tar with these members, by their names in it.  Raises OSError."""
    for name, source in members.items():
        info = tarfile.TarInfo(name)
        if isinstance(source, bytes):
            info.size, info.mode = len(source), 0o644
            yield info.tobuf(tarfile.PAX_FORMAT)
            yield source
        else:
            status = source.stat()
            info.size, info.mode = status.st_size, 0o755 if status.st_mode & 0o100 else 0o644
            yield info.tobuf(tarfile.PAX_FORMAT)
            with source.open("rb") as file:
                while data := file.read(_CHUNK):
                    yield data
        yield bytes(-info.size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def unpack_plain(data: bytes, folder: Path, wanted: frozenset[str]) -> None:
    """Writes the plain files of `wanted` that `data`, of a stranger, holds into `folder`.

    Everything else in it is left alone.  Raises tarfile.TarError and OSError.
    """
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
        for member in tar:
            source = tar.extractfile(member) if member.isreg() else None
            if member.name in wanted and source is not None:
                (folder / member.name).write_bytes(source.read())
