# SPDX-License-Identifier: Apache-2.0
"""The evidence: every byte that a guest sent, with the instant of its receipt.

`history.bin` is 8 bytes of magic, the 32 bytes that bind it to its recording
(powercut.model.binding), CRC-32C of both, then chunks.  A chunk is what one receive call
returned: 16 bytes of header {receipt_ns u64, length u32, crc u32}, little-endian, and
`length` bytes.  `receipt_ns` is CLOCK_MONOTONIC when the call returned; `crc` is
CRC32C over the first 12 bytes of the header and the bytes.  Messages (see wire.py) go
across chunk borders; a message was received when its last chunk was.  A chunk of
length 0 is the last: the guest's side was read to its end.  A file without it was
cut off, because the controller was; what it holds counts all the same.  A chunk whose length is
2^32-1 has no bytes: what follows comes from another hypervisor, to which the guest has moved, and
`receipt_ns` is an instant at which the guest stood still in the one before.  One whose length is
2^32-2 says that the guest was restarted at `receipt_ns`: a message that is unfinished there never
ends.
"""

from __future__ import annotations

import errno
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import google_crc32c

from powercut.channel.ledger import Ledger
from powercut.channel.wire import Decoder
from powercut.closing import Closing
from powercut.model.binding import DIGEST_BYTES, NOT_BOUND
from powercut.model.errors import DamagedRecording, HostError
from powercut.model.history import History, LatencyHistogram
from powercut.model.named_path import openable

MAGIC: Final = b"PCHIST1\n"
HEAD_BYTES: Final = len(MAGIC) + DIGEST_BYTES + 4
_HEADER: Final = struct.Struct("<QII")
_CHECKED: Final = struct.Struct("<QI")
_HANDOVER: Final = 2**32 - 1
_RESTART: Final = 2**32 - 2
"""In place of a length, which no receive call returns."""


class HistoryWriter(Closing):
    """Appends to a new history file.  Unbuffered: a SIGKILL of the controller loses nothing."""

    def __init__(self, path: Path, digest: bytes = NOT_BOUND) -> None:
        """`digest` binds the file to its recording."""
        self.path = path
        head = MAGIC + digest
        try:
            self._file = path.open("xb", buffering=0)
            self._append(head + struct.pack("<I", google_crc32c.value(head)))
        except OSError as error:
            raise HostError(
                f"cannot create {path}: {error.strerror}",
                hint="every run needs a directory of its own, with space on it",
            ) from None

    def append(self, receipt_ns: int, data: bytes) -> None:
        """Adds a chunk; no data marks the end.  Raises OSError, also when it fits in part."""
        checked = _CHECKED.pack(receipt_ns, len(data))
        self._append(checked + struct.pack("<I", _crc(checked, data)) + data)

    def hand_over(self, stopped_ns: int, *, restarted: bool = False) -> None:
        """What follows comes from another hypervisor; the guest stood still at `stopped_ns`.  Or
        it was `restarted`."""
        checked = _CHECKED.pack(stopped_ns, _RESTART if restarted else _HANDOVER)
        self._append(checked + struct.pack("<I", _crc(checked, b"")))

    def close(self) -> None:
        """Makes the file durable on the host and closes it; idempotent."""
        if not self._file.closed:
            try:
                os.fsync(self._file.fileno())
            finally:
                self._file.close()

    def _append(self, data: bytes) -> None:
        written = self._file.write(data)
        if written != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))


@dataclass(frozen=True)
class RecordedHistory:
    """A history rebuilt from its file.

    `complete` is False if the file was cut off: later acks may be missing, so that
    nothing it lacks may count in favour of the system under test.
    `unfinished_bytes` are those of a last message that the cut left behind.  `latency` is
    the last that the workload reported, None if it never did.  `digest` binds the file to its
    recording.
    """

    history: History
    complete: bool
    unfinished_bytes: int
    latency: LatencyHistogram | None
    digest: bytes = NOT_BOUND


def read_history(path: Path) -> RecordedHistory:
    """Rebuilds the history from `path`; raises as `history_of`."""
    try:
        raw = openable(path).read_bytes()
    except OSError as error:
        raise DamagedRecording(f"cannot read {path}: {error.strerror}") from None
    return history_of(path, raw)


def history_of(path: Path, raw: bytes) -> RecordedHistory:
    """Rebuilds the history from the contents `raw` of `path`.

    Raises DamagedRecording if anything but its end is wrong.
    """
    at, digest = _head(path, raw)
    ledger, decoder, complete = Ledger(), Decoder(), False
    while not complete and at + _HEADER.size <= len(raw):
        receipt_ns, length, crc = _HEADER.unpack_from(raw, at)
        start = at + _HEADER.size
        handed_over, restarted = length in (_HANDOVER, _RESTART), length == _RESTART
        length = 0 if handed_over else length
        if start + length > len(raw):
            break
        data = raw[start : start + length]
        if _crc(raw[at : at + _CHECKED.size], data) != crc:
            raise DamagedRecording(f"{path} is damaged at byte {at}: checksum does not match")
        if handed_over:
            ledger.hand_over(receipt_ns, restarted=restarted)
            decoder = Decoder() if restarted else decoder
            at = start
            continue
        complete = not length
        for message in decoder.feed(data):
            ledger.apply(message, receipt_ns)
        at = start + length
    if complete and at != len(raw):
        raise DamagedRecording(f"{path} continues for {len(raw) - at} bytes after its end")
    return RecordedHistory(ledger.history(), complete, decoder.unfinished, ledger.latency, digest)


def _head(path: Path, raw: bytes) -> tuple[int, bytes]:
    magic = raw[: len(MAGIC)]
    if magic != MAGIC[: len(raw)]:
        raise DamagedRecording(f"{path} is not a history file")
    checked = HEAD_BYTES - 4
    if len(raw) < HEAD_BYTES:
        return HEAD_BYTES, NOT_BOUND
    if struct.pack("<I", google_crc32c.value(raw[:checked])) != raw[checked:HEAD_BYTES]:
        raise DamagedRecording(f"{path} is damaged in its first {HEAD_BYTES} bytes")
    return HEAD_BYTES, raw[len(MAGIC) : checked]


def _crc(checked: bytes, data: bytes) -> int:
    return int(google_crc32c.extend(google_crc32c.value(checked), data))
