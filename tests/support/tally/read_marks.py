# SPDX-License-Identifier: Apache-2.0
"""Reads the marks in an image: read_marks.py IMAGE RUN MARKS; extents by wire on standard output.

It is run once for each state, so that it loads nothing of powercut.
"""

import struct
import sys
from pathlib import Path

import google_crc32c

SECTOR = 512
HEADER = struct.Struct("<IHHIIQQQ")  # workloads/common/wire.h
EXTENT, INTACT = 9, 1


def message(kind, payload):
    def header(crc):
        return HEADER.pack(0x31574350, kind, 0, len(payload), crc, 0, 0, 0)

    return header(google_crc32c.value(header(0) + payload)) + payload


def main() -> None:
    image, run, marks = sys.argv[1:]
    with Path(image).open("rb") as file:
        data = file.read(int(marks) * SECTOR)
    for at in range(0, len(data), SECTOR):
        number = int.from_bytes(data[at + 8 : at + 16], "little")
        right = data[at : at + 8] == b"tally   " and data[at + 16 : at + 32].hex() == run
        if right and number == at // SECTOR + 1:
            extent = struct.pack("<QQQII", number - 1, 1, number, INTACT, 0)
            sys.stdout.buffer.write(message(EXTENT, extent))


main()
