# SPDX-License-Identifier: Apache-2.0
"""Kernels come out of bzImages whole, or not at all."""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import struct
import subprocess
from collections.abc import Callable

import pytest
import zstandard

from powercut.machine.guest.kernel_package import decompress, extract_vmlinux, has_pvh_entry
from powercut.model.errors import HostError


def elf(*, note: bytes = b"", kind: int = 18) -> bytes:
    """An ELF64 file with one PT_NOTE segment that holds one note."""
    notes = struct.pack("<III", len(note), 4, kind) + note + bytes(-len(note) % 4) + bytes(4)
    header = bytearray(64)
    header[:5] = b"\x7fELF\x02"
    struct.pack_into("<Q", header, 32, 64)
    struct.pack_into("<HH", header, 54, 56, 1)
    program = struct.pack("<IIQQQQQQ", 4, 0, 120, 0, 0, len(notes), len(notes), 4)
    return bytes(header) + program + notes + bytes(range(256)) * 64


KERNEL = elf(note=b"Xen\0")


def lz4_legacy(data: bytes) -> bytes:
    if shutil.which("lz4") is None:
        pytest.skip("no lz4: apt-get install lz4")
    done = subprocess.run(["lz4", "-l", "-c"], input=data, capture_output=True, check=True)
    return done.stdout


# What the kernel's build does: gzip ends with the size itself, the others get it appended.
COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "xz": lambda data: lzma.compress(data) + struct.pack("<I", len(data)),
    "lzma": lambda data: lzma.compress(data, lzma.FORMAT_ALONE) + struct.pack("<I", len(data)),
    "bzip2": lambda data: bz2.compress(data) + struct.pack("<I", len(data)),
    "zstd": lambda data: zstandard.compress(data) + struct.pack("<I", len(data)),
    "lz4": lambda data: lz4_legacy(data) + struct.pack("<I", len(data)),
}


def bzimage(payload: bytes, *, setup_sectors: int = 4, offset: int = 100) -> bytes:
    image = bytearray((setup_sectors + 1) * 512 + offset)
    image[0x1F1] = setup_sectors
    image[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", image, 0x206, 0x20F)
    struct.pack_into("<II", image, 0x248, offset, len(payload))
    return bytes(image) + payload + b"what follows the payload"


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_every_compression(name: str) -> None:
    assert extract_vmlinux(bzimage(COMPRESSIONS[name](KERNEL))) == KERNEL


def test_no_setup_sectors_means_four() -> None:
    image = bytearray(bzimage(COMPRESSIONS["gzip"](KERNEL)))
    image[0x1F1] = 0
    assert extract_vmlinux(bytes(image)) == KERNEL


def test_damage_is_refused() -> None:
    payload = zstandard.compress(KERNEL) + struct.pack("<I", len(KERNEL) + 1)
    with pytest.raises(HostError, match="payload of the bzImage is damaged"):
        extract_vmlinux(bzimage(payload))
    with pytest.raises(HostError, match="ends before its payload"):
        extract_vmlinux(bzimage(COMPRESSIONS["xz"](KERNEL))[:-200])
    with pytest.raises(HostError, match="not a bzImage"):
        extract_vmlinux(KERNEL)
    with pytest.raises(HostError, match=r"unknown compression: .*6c 7a 6f"):
        decompress(b"lzo...")


def test_pvh_entry_is_found_by_its_note() -> None:
    assert has_pvh_entry(KERNEL)
    assert not has_pvh_entry(elf(note=b"Xen\0", kind=6))
    assert not has_pvh_entry(elf(note=b"GNU\0"))
    assert not has_pvh_entry(b"\x7fELF\x01" + bytes(100))
