# SPDX-License-Identifier: Apache-2.0
"""Evidence that takes little room: the large files of a recording, packed into one.

The format, docs/formats/packed-evidence.md:

    8 bytes     magic
    u32, u32    length of the index, CRC-32C of it; little-endian
    index       JSON: {"run_id": hex, "files": [{"name", "size", "data", "folds"}]}
    frames      zstd (RFC 8878), two for each file, in the order of the index: `data` bytes with
                the file, payload of the run folded away (powercut.wal.folding), and `folds`
                bytes with what was folded, four columns of u64 of which the first and the last
                are differences from row to row

What is packed is the same evidence: a reader gets the same bytes, the seal is over
those, and `pack` has compared every one of them before it removes a file.  A file that lies there
unpacked counts, whatever the pack says: `pack` may have been interrupted.
"""

from __future__ import annotations

import functools
import io
import json
import struct
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import google_crc32c
import numpy as np
import numpy.typing as npt
import zstandard

from powercut.mapped import mapped
from powercut.model.errors import DamagedRecording
from powercut.model.printable import parse_json
from powercut.store.files import fsync_path, host_errors, write_atomic
from powercut.store.manifest import PACK
from powercut.wal.folding import Folds, fold, unfold

PACKABLE: Final = (
    "disk.log",
    "disk.data",
    "recovery.log",
    "recovery.data",
    "history.bin",
    "lines.bin",
)
"""What is packed; everything else in a recording is small, or shared, or for people."""

SIZE_MAX: Final = 1 << 30
"""Larger files stay as they are: a packed one is read into memory."""

_MAGIC: Final = b"PCPACK1\n"
_HEAD: Final = struct.Struct("<II")
_INDEX_MAX: Final = 1 << 16
_LEVEL: Final = 3
_COLUMNS: Final = 4

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class _Entry:
    """A file in a pack, and where its frames lie."""

    name: str
    size: int
    at: int
    data: int
    folds: int


class Pack:
    """A pack, opened.  Raises DamagedRecording for one that makes no sense."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            raw = np.fromfile(path, dtype=np.uint8)
        except OSError as error:
            raise DamagedRecording(f"{path}: {error.strerror}") from error
        self._raw = raw
        head = len(_MAGIC) + _HEAD.size
        if raw[: len(_MAGIC)].tobytes() != _MAGIC or len(raw) < head:
            raise self._damaged("it does not start as a pack does")
        length, crc = _HEAD.unpack(raw[len(_MAGIC) : head].tobytes())
        index = raw[head : head + length].tobytes()
        if length > _INDEX_MAX or len(index) != length or google_crc32c.value(index) != crc:
            raise self._damaged("its index is cut off or damaged")
        try:
            value = parse_json(index)
            self._run_id = bytes.fromhex(value["run_id"])
            self._entries = {entry.name: entry for entry in _entries(value, head + length)}
        except (ValueError, KeyError, TypeError) as error:
            raise self._damaged(f"its index makes no sense: {error!r}") from error
        if len(self._run_id) != 16:
            raise self._damaged("its run id has not 16 bytes")
        self._read: dict[str, Bytes] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The files in it."""
        return tuple(self._entries)

    def size(self, name: str) -> int:
        return self._entries[name].size

    def read(self, name: str) -> Bytes:
        """A file, as it was, not to be written to; raises DamagedRecording."""
        if name not in self._read:
            self._read[name] = self._unfolded(self._entries[name])
        return self._read[name]

    def _unfolded(self, entry: _Entry) -> Bytes:
        plain = self._unpacked(entry, entry.at, entry.data, entry.size)
        if len(plain) != entry.size:
            raise self._damaged(f"{entry.name} in it has {len(plain)} bytes, and had {entry.size}")
        if not entry.folds:
            return np.frombuffer(plain, dtype=np.uint8)
        data = np.frombuffer(bytearray(plain), dtype=np.uint8)
        try:
            unfold(data, self._folds(entry), self._run_id)
        except ValueError as error:
            raise self._damaged(f"{entry.name} in it: {error}") from error
        data.flags.writeable = False
        return data

    def _folds(self, entry: _Entry) -> Folds:
        # A row stands for a chunk at least, and has half as many bytes.
        plain = self._unpacked(entry, entry.at + entry.data, entry.folds, entry.size)
        table = np.frombuffer(plain, dtype=np.uint8)
        if len(table) % (8 * _COLUMNS):
            raise self._damaged(f"{entry.name} in it: what was folded makes no sense")
        start, count, key, place = table.view("<u8").reshape(_COLUMNS, -1)
        return Folds(np.cumsum(start), count, key, np.cumsum(place))

    def _unpacked(self, entry: _Entry, at: int, length: int, size_max: int) -> bytes:
        """What a frame holds, which may be no more than `size_max` bytes."""
        frame = self._raw[at : at + length].tobytes()
        try:
            size = zstandard.frame_content_size(frame)
            if len(frame) != length or not 0 <= size <= size_max:
                raise self._damaged(f"{entry.name} in it is cut off, or has another size")
            return zstandard.ZstdDecompressor().decompress(frame)
        except zstandard.ZstdError as error:
            raise self._damaged(f"{entry.name} in it: {error}") from error

    def _damaged(self, what: str) -> DamagedRecording:
        return DamagedRecording(f"{self.path}: {what}", hint="copy the recording again")


def _entries(index: dict[str, Any], at: int) -> Iterable[_Entry]:
    """The files that an index names; raises ValueError, KeyError or TypeError."""
    for value in index["files"]:
        numbers = (value["size"], value["data"], value["folds"])
        if value["name"] not in PACKABLE or not all(type(number) is int for number in numbers):
            raise ValueError(f"no file that is packed: {value!r}")
        size, data, folds = numbers
        if not 0 <= size <= SIZE_MAX or data < 0 or folds < 0:
            raise ValueError(f"{value['name']} cannot have that size")
        yield _Entry(value["name"], size, at, data, folds)
        at += data + folds


@functools.lru_cache(maxsize=2)
def _pack_of(path: Path, device: int, inode: int, size: int, mtime_ns: int) -> Pack:
    """The pack that is this file; kept, as the check of a seal reads the same files next."""
    del device, inode, size, mtime_ns  # they only tell it from another
    return Pack(path)


def _opened(path: Path) -> Pack:
    """The pack at `path`; its files are unpacked once.  Raises OSError and DamagedRecording."""
    status = path.stat()
    return _pack_of(path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def evidence_bytes(path: Path) -> Bytes:
    """The contents of a file of a recording, which may be packed.

    Mapped or in memory; not to be written to.  Raises DamagedRecording.
    """
    try:
        return mapped(path)
    except FileNotFoundError as error:
        pack = path.with_name(PACK)
        if pack.is_file():
            opened = _opened(pack)
            if path.name in opened.names:
                return opened.read(path.name)
        raise DamagedRecording(f"{path}: {error.strerror}") from error
    except OSError as error:
        raise DamagedRecording(f"{path}: {error.strerror}") from error


def open_evidence(path: Path) -> io.BufferedReader | io.BytesIO:
    """A file of a recording, which may be packed, to be read.  Raises OSError, DamagedRecording."""
    if path.exists():
        return path.open("rb")
    return io.BytesIO(evidence_bytes(path).tobytes())


def evidence_size(path: Path) -> int:
    """Bytes of a file of a recording, which may be packed.

    Raises OSError if there is none, and DamagedRecording.
    """
    pack = path.with_name(PACK)
    if not path.exists() and pack.is_file():
        opened = _opened(pack)
        if path.name in opened.names:
            return opened.size(path.name)
    return path.stat().st_size


def has_evidence(path: Path) -> bool:
    """Whether there is such a file, packed or not.  Raises DamagedRecording."""
    return path.is_file() or path.name in packed_names(path.parent)


def packed_names(folder: Path) -> tuple[str, ...]:
    """The files in the pack of a recording; none if it has no pack.  Raises DamagedRecording."""
    path = folder / PACK
    return _opened(path).names if path.is_file() else ()


def pack(folder: Path, run_id: bytes) -> None:
    """Packs the large files of the recording in `folder`, unless that was done.

    Every byte is compared before a file is removed; a pack that would not give the same bytes
    is an error.  Raises HostError and DamagedRecording.
    """
    packable = [folder / name for name in PACKABLE if (folder / name).is_file()]
    files = [path for path in packable if path.stat().st_size <= SIZE_MAX]
    if not files or (folder / PACK).is_file():
        _remove(folder, {path.name for path in files} & set(packed_names(folder)))
        return
    frames: list[bytes] = []
    entries: list[dict[str, Any]] = []
    for path in files:
        data = np.fromfile(path, dtype=np.uint8)
        entry, parts = _packed(path.name, data, run_id)
        entries.append(entry)
        frames += parts
    index = json.dumps({"run_id": run_id.hex(), "files": entries}).encode()
    head = _MAGIC + _HEAD.pack(len(index), google_crc32c.value(index))
    write_atomic(folder / PACK, b"".join([head, index, *frames]))
    _remove(folder, {path.name for path in files})


def _packed(name: str, data: Bytes, run_id: bytes) -> tuple[dict[str, Any], list[bytes]]:
    folded, folds = fold(data, run_id) if name.endswith(".data") else (data, None)
    frames = [_compressed(folded.tobytes()), b""]
    if folds is not None and len(folds):
        columns = (_steps(folds.start), folds.count, folds.key, _steps(folds.place))
        frames[1] = _compressed(np.stack(columns).astype("<u8").tobytes())
    entry = {
        "name": name,
        "size": len(data),
        "data": len(frames[0]),
        "folds": len(frames[1]),
    }
    return entry, frames


def _steps(column: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Differences from row to row, modulo 2^64."""
    return np.diff(column, prepend=np.zeros(1, dtype=np.uint64))


def _compressed(data: bytes) -> bytes:
    settings = zstandard.ZstdCompressionParameters.from_level(
        _LEVEL, source_size=len(data), enable_ldm=True, write_checksum=True, write_content_size=True
    )
    return zstandard.ZstdCompressor(compression_params=settings).compress(data)


def _remove(folder: Path, names: Collection[str]) -> None:
    """Removes files that are in the pack, each compared with it once more, byte by byte."""
    if not names:
        return
    packed = Pack(folder / PACK)
    with host_errors(folder):
        for name in sorted(names):
            plain = np.fromfile(folder / name, dtype=np.uint8)
            if not np.array_equal(packed.read(name), plain):
                raise DamagedRecording(f"{folder / PACK}: {name} in it is not the file beside it")
            (folder / name).unlink()
        fsync_path(folder)
