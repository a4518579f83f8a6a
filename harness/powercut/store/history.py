# SPDX-License-Identifier: Apache-2.0
"""history.bin: what the workload claimed, as a file.

All numbers are little-endian.

    8 bytes   "PCUTHIST"
    u32       version, 1
    u32       bytes of JSON below
    u64       number of attempts
    u64       number of acks
    JSON      {"cut_kind": ..., "cut_ns": ..., "error": ..., "facts": {...}}
    i64[]     attempts: LSN of each; then host ns of each; then guest ns of each
    i64[]     acks: the same
    u32       CRC-32 (zlib's) of everything before
"""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.model.contract import CutKind
from powercut.model.errors import DamagedRecording
from powercut.model.history import History
from powercut.model.units import Instant
from powercut.store.files import write_atomic

_MAGIC: Final = b"PCUTHIST"
_VERSION: Final = 1
_HEADER: Final = struct.Struct("<8sIIQQ")
_ATTEMPTS: Final = ("attempt_lsn", "attempt_ns", "attempt_guest_ns")
_ACKS: Final = ("ack_lsn", "ack_ns", "ack_guest_ns")


def write_history(path: Path, history: History) -> None:
    """Writes `history` to `path`; durable on return."""
    meta = json.dumps(
        {
            "cut_kind": history.cut_kind.value if history.cut_kind else None,
            "cut_ns": int(history.cut_ns),
            "error": history.error,
            "facts": history.facts,
        }
    ).encode()
    header = _HEADER.pack(
        _MAGIC, _VERSION, len(meta), len(history.attempt_lsn), len(history.ack_lsn)
    )
    columns = [getattr(history, name).astype("<i8").tobytes() for name in (*_ATTEMPTS, *_ACKS)]
    body = b"".join([header, meta, *columns])
    write_atomic(path, body + struct.pack("<I", zlib.crc32(body)))


def read_history(path: Path) -> History:
    """Reads what `write_history` wrote; raises DamagedRecording."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DamagedRecording(f"{path}: {error.strerror}") from error
    if len(data) < _HEADER.size + 4 or not data.startswith(_MAGIC):
        raise DamagedRecording(f"{path}: not a history of powercut's")
    _, version, length, attempts, acks = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise DamagedRecording(
            f"{path}: history version {version}, and this powercut reads {_VERSION}",
            hint="use the powercut that wrote it, or a newer one",
        )
    if zlib.crc32(data[:-4]) != struct.unpack("<I", data[-4:])[0]:
        raise DamagedRecording(f"{path}: the checksum is wrong")
    start = _HEADER.size + length
    if len(data) != start + 24 * (attempts + acks) + 4:
        raise DamagedRecording(f"{path}: its length contradicts its header")
    meta = json.loads(data[_HEADER.size : start])
    columns: dict[str, npt.NDArray[np.int64]] = {}
    for names, count in ((_ATTEMPTS, attempts), (_ACKS, acks)):
        for name in names:
            column = np.frombuffer(data, dtype="<i8", count=count, offset=start)
            columns[name] = column.astype(np.int64)
            start += 8 * count
    return History(
        **columns,
        cut_kind=CutKind(meta["cut_kind"]) if meta["cut_kind"] else None,
        cut_ns=Instant(meta["cut_ns"]),
        error=meta["error"],
        facts=meta["facts"],
    )
