# SPDX-License-Identifier: Apache-2.0
"""Gives an ELF program another dynamic loader.

A program that was unpacked from a newer suite needs that suite's libc, and so its loader.
It could be started by that loader, but User-Mode Linux executes itself once more as
/proc/self/exe, which would then be the loader.  So its segment PT_INTERP is made to name
another path (elf(5)); the kernel reads that from the file, wherever in it that is.
"""

from __future__ import annotations

import struct
from typing import Final

from powercut.model.errors import HostError

_MAGIC: Final = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_PHOFF: Final = struct.Struct("<Q")  # at 32 of the header
_PHENTSIZE_PHNUM: Final = struct.Struct("<HH")  # at 54
_TYPE: Final = struct.Struct("<I")
_OFFSET: Final = struct.Struct("<Q")  # at 8 of a program header
_SIZES: Final = struct.Struct("<QQ")  # in the file and in memory, at 32
_PT_INTERP: Final = 3


def with_interpreter(program: bytes, loader: str) -> bytes:
    """`program` with `loader`, an absolute path, as its dynamic loader.

    Raises HostError if it is no 64-bit ELF program with a dynamic loader.
    """
    data = bytearray(program)
    name = loader.encode() + b"\0"
    try:
        if not program.startswith(_MAGIC):
            raise HostError("not a 64-bit ELF program")
        (headers,) = _PHOFF.unpack_from(data, 32)
        size, number = _PHENTSIZE_PHNUM.unpack_from(data, 54)
        for header in range(headers, headers + size * number, size or 1):
            if _TYPE.unpack_from(data, header)[0] == _PT_INTERP:
                _OFFSET.pack_into(data, header + 8, len(program))
                _SIZES.pack_into(data, header + 32, len(name), len(name))
                return bytes(data) + name
    except (struct.error, OverflowError) as error:
        raise HostError(f"a damaged ELF program: {error}") from error
    raise HostError("an ELF program without a dynamic loader")
