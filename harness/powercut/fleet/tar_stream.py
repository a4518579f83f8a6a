# SPDX-License-Identifier: Apache-2.0
"""Files as a tar (POSIX pax) that is sent while it is made, as a zstd stream (RFC 8878)."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Final, cast

import zstandard

from powercut.model.errors import DamagedRecording
from powercut.sandbox.archive import ArchiveLimits, open_tar
from powercut.store.files import host_errors

_LIMITS: Final = ArchiveLimits(members=100_000, size=4 << 30, depth=1)
_NAME: Final = re.compile(r"(states/)?[A-Za-z0-9_][A-Za-z0-9._@:+-]{0,200}")
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


def packed(data: Iterable[bytes]) -> Iterator[bytes]:
    """The same, compressed."""
    compressor = zstandard.ZstdCompressor(level=3).compressobj()
    for part in data:
        yield compressor.compress(part)
    yield compressor.flush()


def unpack(data: IO[bytes], folder: Path, wanted: Callable[[str], bool] = lambda _: True) -> None:
    """Leaves the files of a recording in `folder`.

    Raises DamagedRecording for what is none, or is not `wanted`, HostError if it cannot be written.
    """
    try:
        stream = zstandard.ZstdDecompressor().stream_reader(data)
        with open_tar(cast("IO[bytes]", stream), _LIMITS, stream=True) as tar:
            for member in tar:
                source = tar.open(member)
                named = _NAME.fullmatch(member.name) and wanted(member.name)
                if source is None or not named:
                    raise DamagedRecording(f"it sends {member.name[:80]!r}")
                target = folder / member.name
                with host_errors(target):
                    target.parent.mkdir(exist_ok=True)
                    with target.open("xb") as file:
                        while chunk := source.read(1 << 20):
                            file.write(chunk)
    except (zstandard.ZstdError, tarfile.TarError) as error:
        raise DamagedRecording(f"no stream of files: {error}") from None
