# SPDX-License-Identifier: Apache-2.0
"""Which files a check has read, as a guest tells it (guests/common/reads.h).

Paths are a stranger's: they are told as a terminal may show them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from powercut.model.errors import HostError
from powercut.model.printable import printable
from powercut.model.reads import FileRead

_HEAD: Final = struct.Struct("<Q")
_FILE: Final = struct.Struct("<QQQIIII")
"""Size, modified, changed, bytes of path, of target, unread, CRC."""


def reads_in(answer: bytes) -> tuple[FileRead, ...] | None:
    """The files in an answer; None if it says that they are not known.  Raises HostError."""
    if not answer:
        return None
    try:
        return tuple(_files(answer))
    except (struct.error, ValueError) as error:
        raise HostError(f"the guest's list of what was read: {error}") from error


def _files(answer: bytes) -> Iterator[FileRead]:
    (count,) = _HEAD.unpack_from(answer)
    at = _HEAD.size
    for _ in range(count):
        size, modified, changed, path, target, unread, crc = _FILE.unpack_from(answer, at)
        at += _FILE.size
        if path + target > len(answer) - at:
            raise ValueError(f"a path of {path} bytes, and a target of {target}")
        name, to = answer[at : at + path], answer[at + path : at + path + target]
        at += path + target
        texts = [printable(one.decode(errors="replace")) for one in (name, to)]
        yield FileRead(texts[0], size, modified, changed, bool(unread), texts[1], crc)
    if at != len(answer):
        raise ValueError(f"{len(answer) - at} bytes after its end")
