# SPDX-License-Identifier: Apache-2.0
"""Where files lie on a disk, as guests/uml/files.c tells it (guests/uml/share.h, struct pcu_file).

The disk may be a stranger's, and so may what its file system says: every number is checked.
"""

from __future__ import annotations

import stat
import struct
from collections.abc import Iterator
from typing import Final

from powercut.model.errors import HostError
from powercut.recover.port import FileExtent, FilePlace

_FILE: Final = struct.Struct("<IIII")  # mode, bytes of the path, extents, reserved
_EXTENT: Final = struct.Struct("<QQQ")  # disk, file, length
_MOST: Final = 1 << 62


def places_in(answer: memoryview) -> tuple[FilePlace, ...]:
    """The files in an answer, sorted by path.  Raises HostError for one that is none."""
    try:
        return tuple(sorted(_places(answer), key=lambda place: place.path))
    except (struct.error, ValueError) as error:
        raise HostError(f"the guest's list of files: {error}") from error


def _places(answer: memoryview) -> Iterator[FilePlace]:
    at = 0
    while at < len(answer):
        mode, path, extents, _ = _FILE.unpack_from(answer, at)
        at += _FILE.size
        if path > len(answer) - at:
            raise ValueError(f"a path of {path} bytes")
        name = bytes(answer[at : at + path]).decode(errors="replace")
        at += path
        found = []
        for _ in range(extents):
            extent = FileExtent(*_EXTENT.unpack_from(answer, at))
            at += _EXTENT.size
            if max(extent.disk, extent.file, extent.length) >= _MOST:
                raise ValueError(f"no disk has {extent}")
            found.append(extent)
        yield FilePlace(name, stat.S_ISDIR(mode), tuple(found))
