# SPDX-License-Identifier: Apache-2.0
"""The file that keeps what a program said, as it was received.

8 bytes `PCLINES1`, 32 bytes that name the recording (powercut.model.binding), then for each
packet its instant (u64, nanoseconds of CLOCK_MONOTONIC at which it was written), its length (u32)
and its bytes, little-endian.
"""

from __future__ import annotations

import struct
from typing import Final

from powercut.model.binding import Binding
from powercut.model.errors import DamagedRecording
from powercut.model.operations import Packet

MAGIC: Final = b"PCLINES1"
_HEADER: Final = struct.Struct("<QI")


def pack(packet: Packet) -> bytes:
    """A packet as it stands in the file."""
    return _HEADER.pack(packet.at_ns, len(packet.data)) + packet.data


def header(binding: Binding) -> bytes:
    """The beginning of the file of a recording."""
    return MAGIC + binding.digest


def unpack(data: bytes, binding: Binding) -> tuple[Packet, ...]:
    """The packets of a file.

    Raises DamagedRecording for anything else: a file that was cut, or one of another recording.
    """
    if not data.startswith(MAGIC):
        raise DamagedRecording("the lines of the program do not begin as such a file does")
    if not data.startswith(header(binding)):
        raise DamagedRecording("the lines of the program are of another recording")
    packets = []
    at = len(header(binding))
    while at < len(data):
        if at + _HEADER.size > len(data):
            raise DamagedRecording(f"the lines of the program end within a packet, at byte {at}")
        instant, length = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        if at + length > len(data):
            raise DamagedRecording(f"the lines of the program end within a packet, at byte {at}")
        packets.append(Packet(instant, data[at : at + length]))
        at += length
    return tuple(packets)
