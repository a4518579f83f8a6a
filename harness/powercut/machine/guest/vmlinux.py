# SPDX-License-Identifier: Apache-2.0
"""The kernel proper inside a bzImage.

QEMU starts an uncompressed ELF kernel at its PVH entry point without the BIOS loader,
the real-mode stub and the decompressor: 0.27 s less under TCG.  Distributions ship the
compressed bzImage only, whose setup header says where the payload lies
(Documentation/arch/x86/boot.rst of the kernel: protocol 2.08 and later).
"""

from __future__ import annotations

import bz2
import lzma
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Final

import zstandard

from powercut.model.errors import HostError

_SETUP_SECTS: Final = 0x1F1
_MAGIC: Final = 0x202
_VERSION: Final = 0x206
_PAYLOAD_OFFSET: Final = 0x248
_LZ4_LEGACY: Final = b"\x02\x21\x4c\x18"
_LZ4_FRAME: Final = b"\x04\x22\x4d\x18"
_BYTES_MAX: Final = 512 << 20
_STEP: Final = 4096  # of zstd: 128 MiB at most come of it
_DAMAGE: Final = (
    EOFError, OSError, ValueError, lzma.LZMAError, zlib.error, zstandard.ZstdError,
)  # fmt: skip
_SIZE_TRAILER: Final = 4
_SEGMENTS_MAX: Final = 64  # a kernel has five
_NOTES_MAX: Final = 64 << 10
_NOTE_SEGMENT: Final = 4  # PT_NOTE
_XEN_PHYS32_ENTRY: Final = 18  # XEN_ELFNOTE_PHYS32_ENTRY: the PVH entry point
_LZ4_TIMEOUT_S: Final = 120.0


def decompress(data: bytes) -> bytes:
    """The first compressed stream in `data`, by its magic number; what follows it is ignored.

    Handles gzip, xz, lzma, bzip2, zstd and (with the `lz4` command) lz4.  An lz4
    stream must end where `data` ends.  Raises HostError for anything else, and for what is damaged
    or larger than any kernel.
    """
    try:
        plain = _decompressed(data)
    except _DAMAGE as error:
        raise HostError(f"its compression is damaged: {error}") from error
    if len(plain) > _BYTES_MAX:
        raise HostError(f"more than {_BYTES_MAX >> 20} MiB without its compression: no kernel")
    return plain


def _decompressed(data: bytes) -> bytes:
    most = _BYTES_MAX + 1
    if data.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(wbits=31).decompress(data, most)
    if data.startswith(b"\xfd7zXZ\0") or data.startswith(b"\x5d\0\0"):
        return lzma.LZMADecompressor(memlimit=_BYTES_MAX).decompress(data, most)
    if data.startswith(b"BZh"):
        return bz2.BZ2Decompressor().decompress(data, most)
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        return _zstd(data, most)
    if data.startswith((_LZ4_LEGACY, _LZ4_FRAME)):
        return _lz4(data)
    raise HostError(f"unknown compression: the data begin with {data[:6].hex(' ')}")


def _zstd(data: bytes, most: int) -> bytes:
    """As much of a frame as makes `most` bytes, and what the last step brings beyond."""
    unpacker = zstandard.ZstdDecompressor(max_window_size=_BYTES_MAX).decompressobj()
    plain = bytearray()
    for at in range(0, len(data), _STEP):
        plain += unpacker.decompress(data[at : at + _STEP])
        if unpacker.eof or len(plain) > most:
            break
    return bytes(plain)


def _lz4(data: bytes) -> bytes:
    try:
        done = subprocess.run(
            ["lz4", "-d", "-c", "-q"],
            input=data,
            capture_output=True,
            check=False,
            timeout=_LZ4_TIMEOUT_S,
        )
    except FileNotFoundError:
        raise HostError(
            "this kernel is compressed with lz4, and there is no lz4 command",
            hint="apt-get install lz4",
        ) from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise HostError(f"lz4 -d failed with status {done.returncode}: {said}")
    return done.stdout


def extract_vmlinux(image: bytes) -> bytes:
    """The ELF kernel in a bzImage.  Raises HostError if it is not one, or damaged."""
    if len(image) < 0x264 or image[_MAGIC : _MAGIC + 4] != b"HdrS":
        raise HostError("not a bzImage: no boot protocol header")
    (version,) = struct.unpack_from("<H", image, _VERSION)
    if version < 0x208:
        raise HostError(f"boot protocol {version >> 8}.{version & 255:02d} names no payload")
    setup_sectors = image[_SETUP_SECTS] or 4  # 0 means 4, for old boot loaders
    offset, length = struct.unpack_from("<II", image, _PAYLOAD_OFFSET)
    start = (setup_sectors + 1) * 512 + offset
    payload = image[start : start + length]
    if len(payload) != length or length <= _SIZE_TRAILER:
        raise HostError("the bzImage ends before its payload does")
    # The kernel's build appends the uncompressed size (gzip has its own there).
    (size,) = struct.unpack("<I", payload[-_SIZE_TRAILER:])
    is_lz4 = payload.startswith((_LZ4_LEGACY, _LZ4_FRAME))
    kernel = decompress(payload[:-_SIZE_TRAILER] if is_lz4 else payload)
    if len(kernel) != size or not kernel.startswith(b"\x7fELF"):
        raise HostError(f"the payload of the bzImage is damaged: {len(kernel)} of {size} bytes")
    return kernel


def has_pvh_entry(kernel: bytes) -> bool:
    """Whether an ELF64 kernel has the note that QEMU needs to start it directly."""
    if len(kernel) < 64 or kernel[:5] != b"\x7fELF\x02":
        return False
    (table,) = struct.unpack_from("<Q", kernel, 32)
    entry_size, count = struct.unpack_from("<HH", kernel, 54)
    for index in range(min(count, _SEGMENTS_MAX)):
        try:
            kind, _flags, start, _va, _pa, size = struct.unpack_from(
                "<IIQQQQ", kernel, table + index * entry_size
            )
        except (struct.error, OverflowError):  # they would lie behind its end
            return False
        if kind == _NOTE_SEGMENT and _has_note(kernel[start : start + min(size, _NOTES_MAX)]):
            return True
    return False


def _has_note(notes: bytes) -> bool:
    at = 0
    while at + 12 <= len(notes):
        name_size, value_size, kind = struct.unpack_from("<III", notes, at)
        name = notes[at + 12 : at + 12 + name_size].rstrip(b"\0")
        if kind == _XEN_PHYS32_ENTRY and name == b"Xen":
            return True
        at += 12 + (name_size + 3) // 4 * 4 + (value_size + 3) // 4 * 4
    return False


def read_module(path: Path) -> bytes:
    """A kernel module's ELF bytes, whether it is stored compressed or not."""
    data = path.read_bytes()
    return data if data.startswith(b"\x7fELF") else decompress(data)
