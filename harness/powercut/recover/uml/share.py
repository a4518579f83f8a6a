# SPDX-License-Identifier: Apache-2.0
"""The memory shared with PID 1 of a User-Mode Linux: guests/uml/share.h, in Python."""

from __future__ import annotations

import enum
import mmap
import os
import struct
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.model.observation import Extent
from powercut.wal.layout import SlotState

MAGIC: Final = 0x32554350
PAGE: Final = 4096
STEPS: Final = 9
PAGE_FORMAT: Final = struct.Struct(f"<II15QIIIIIIQ{STEPS}Q256s")
PATCHED_AT: Final = 1 << 20
"""Bytes into the area: patches stand before it, what they put in place from there."""

PATCH_DTYPE: Final = np.dtype([("offset", "<u8"), ("length", "<u8"), ("data", "<u8")])
EXTENT_FORMAT: Final = struct.Struct("<QQQII")

_ERRNO_MAX: Final = 4095
_REQUEST: Final = struct.Struct("<IIQ")  # magic, verb, sequence
_ARGUMENTS: Final = struct.Struct("<QQQ")  # offset, length, count
_ARGUMENTS_AT: Final = 48
_FLAGS: Final = struct.Struct("<I")
_FLAGS_AT: Final = 128
_TRACK: Final = struct.Struct("<I")
_TRACK_AT: Final = 136
_LIMIT: Final = struct.Struct("<Q")
_LIMIT_AT: Final = 152


class Verb(enum.IntEnum):
    """What PID 1 can be asked to do; share.h explains each."""

    CONFIGURE = 1
    PATCH = 2
    RECOVER = 3
    MOUNT = 4
    UMOUNT = 5
    EXEC = 6
    DUMP = 7
    BARE = 8
    LOG = 9
    PRESS = 10
    LEFT = 11
    PRESSED = 12
    NODES_END = 13
    NODES_GONE = 14
    NODES_BEGIN = 15


class Step(enum.IntEnum):
    """The step of a recovery that failed, or took its time."""

    NONE = 0
    PATCH = 1
    VIEW = 2
    MOUNT = 3
    READ = 4
    AFTER = 5
    UMOUNT = 6
    CHECK = 7
    ACTIVATE = 8


class Flag(enum.IntFlag):
    """What a recovery is to do besides."""

    AFTER = 1
    RECORD = 2
    LIVE = 4
    TREE = 8
    UNSYNCED = 16
    FILES = 32
    WARM = 64
    READS = 128
    FOLDER = 256
    MAKE = 512


class After(enum.IntEnum):
    """How far the workload came after recovery."""

    NOT = 0
    WRITER = 1
    MOUNT = 2
    READER = 3
    DONE = 4


class BarePath(enum.IntEnum):
    """Ways to the disk that the bare loop compares; the engine uses the first."""

    VIEW = 0
    RAM_COPY = 1
    UBD = 2
    VIEW_UBD = 3
    LOOP = 4
    VIEW_LOOP = 5
    PLAIN = 6


_STEPS: Final = frozenset(map(int, Step))
_AFTERS: Final = frozenset(map(int, After))


@dataclass(frozen=True)
class Answer:
    """What PID 1 made of a request.

    `error` is an errno; times are nanoseconds by `Step`; `answer`, `after_answer` and
    `reads` are bytes, which follow each other in this order; the first `after_lines` of
    `after_answer` are what a program said while it went on.
    """

    step: Step
    error: int
    status: int
    answer: int
    reads: int
    after_answer: int
    after_lines: int
    first_lsn: int
    acked: int
    attempted: int
    after: After
    step_ns: tuple[int, ...]
    what: str

    @property
    def reason(self) -> str:
        """The call that failed and why, for a person."""
        if not self.error:
            return self.what
        known = self.error <= _ERRNO_MAX
        return f"{self.what}: {os.strerror(self.error) if known else f'error {self.error}'}"


class Share:
    """The shared memory of one engine: created before the first boot, reused by the next."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.fd = os.memfd_create("powercut-share")
        os.ftruncate(self.fd, PAGE + capacity)
        self._map = mmap.mmap(self.fd, PAGE + capacity)
        self._sequence = 0

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    @property
    def area(self) -> npt.NDArray[np.uint8]:
        """What requests and answers use."""
        return np.frombuffer(self._map, dtype=np.uint8, offset=PAGE)

    def prepare_boot(self, disk_size: int, chunk: int) -> None:
        """Writes what PID 1 needs to know before it can be asked anything."""
        self._map[:PAGE] = bytes(PAGE)
        PAGE_FORMAT.pack_into(
            self._map, 0, MAGIC, 0, 0, 0, self.capacity, disk_size, chunk, *([0] * 17),
            *([0] * STEPS), b"",
        )  # fmt: skip

    def put(self, data: bytes) -> None:
        """Puts `data` at the beginning of the area."""
        self._map[PAGE : PAGE + len(data)] = data

    def put_pages(self, pages: npt.NDArray[np.int64], content: npt.NDArray[np.uint8]) -> int:
        """Puts patches for `pages` (numbers, rising) there; returns how many there are."""
        begins = np.flatnonzero(np.diff(pages, prepend=-2) != 1)
        patches = np.empty(len(begins), dtype=PATCH_DTYPE)
        patches["offset"] = pages[begins] * PAGE
        patches["length"] = np.diff(begins, append=len(pages)) * PAGE
        patches["data"] = PATCHED_AT + begins * PAGE
        area = self.area
        area[PATCHED_AT : PATCHED_AT + len(pages) * PAGE] = content.reshape(-1)
        area[: patches.nbytes] = patches.view(np.uint8)
        return len(patches)

    def ask(
        self,
        verb: Verb,
        *,
        offset: int = 0,
        length: int = 0,
        count: int = 0,
        track: int = 0,
        flags: int = 0,
        limit_ms: int = 0,
    ) -> None:
        """Writes a request; the caller then rings."""
        self._sequence += 1
        _ARGUMENTS.pack_into(self._map, _ARGUMENTS_AT, offset, length, count)
        _TRACK.pack_into(self._map, _TRACK_AT, track)
        _FLAGS.pack_into(self._map, _FLAGS_AT, flags)
        _LIMIT.pack_into(self._map, _LIMIT_AT, limit_ms)
        _REQUEST.pack_into(self._map, 0, MAGIC, verb, self._sequence)

    def answer(self) -> Answer | None:
        """The answer to the last request; None if it is another's, or none that PID 1 gives."""
        fields = PAGE_FORMAT.unpack_from(self._map, 0)
        if fields[3] != self._sequence or fields[20] not in _STEPS or fields[18] not in _AFTERS:
            return None
        return Answer(
            step=Step(fields[20]),
            error=fields[21],
            status=fields[22],
            answer=fields[10],
            reads=fields[11],
            after_answer=fields[12],
            after_lines=fields[13],
            first_lsn=fields[14],
            acked=fields[15],
            attempted=fields[16],
            after=After(fields[18]),
            step_ns=tuple(fields[24 : 24 + STEPS]),
            what=fields[24 + STEPS].split(b"\0")[0].decode(errors="replace"),
        )

    def bytes(self, size: int, *, at: int = 0) -> bytes:
        """`size` bytes of the area from `at`."""
        return self._map[PAGE + at : PAGE + at + size]

    def view(self, size: int) -> memoryview:
        """The first `size` bytes of the area, as they are until the next request."""
        return memoryview(self._map)[PAGE : PAGE + size]

    def extents(self, size: int, *, at: int = 0) -> tuple[Extent, ...]:
        """The extents in `size` bytes from `at`.  Raises ValueError for what are none."""
        raw = self._map[PAGE + at : PAGE + at + size]
        return tuple(
            Extent(slot, count, SlotState(state), lsn, detail)
            for slot, count, lsn, state, detail in EXTENT_FORMAT.iter_unpack(raw)
        )
