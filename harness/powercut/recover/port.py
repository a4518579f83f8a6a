# SPDX-License-Identifier: Apache-2.0
"""The port to a recovery engine: given a disk, what does the system make of it?

What only some engines can do is a protocol of its own, and asked for with isinstance.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from powercut.model.errors import HostError
from powercut.model.observation import Observation
from powercut.model.printable import printable
from powercut.model.reads import FileRead
from powercut.model.timeline import Timeline
from powercut.recover.plan import RecoveryPlan

NO_SUCH_SLOT: Final = 2
"""The exit status of a writer that has no slot for the LSN it is to go on with: of `wal`, for
any arguments that cannot work (docs/adding-a-workload.md)."""

AFTER_MARK: Final = "after"
"""The mark in the record of a recovery that says that the workload which went on has ended."""

Reads = tuple[tuple[int, int], ...]
"""(offset, length) in bytes, rising, whole pages but for the end of the disk."""


@dataclass(frozen=True)
class ImageWrite:
    """Bytes to lay over an image at `offset` (bytes); `data` None means `length` zeroes."""

    offset: int
    length: int
    data: npt.NDArray[np.uint8] | None


@dataclass(frozen=True)
class FileExtent:
    """`length` bytes of a file from `file` on lie on the disk from `disk` on."""

    disk: int
    file: int
    length: int


@dataclass(frozen=True)
class FilePlace:
    """A file or a folder, by its path below the mount point, and where it lies."""

    path: str
    folder: bool
    extents: tuple[FileExtent, ...]


class RecoveryEngine(AbstractContextManager[Any], Protocol):
    """A sandboxed system that recovers one state after the other; its end ends what it started.

    Between two states nothing leaks: no cached block, no write of the previous recovery.
    """

    def start(self, *, timeout_s: float) -> None:
        """Boots whatever the engine needs; the first `recover` may follow."""

    def recover(self, writes: Sequence[ImageWrite], *, timeout_s: float) -> Observation:
        """Recovers the engine's base image with `writes` laid over it, in order.

        If the plan has a writer that continues, `later` of the observation says what came
        of it.  A kernel that panics, hangs or refuses to mount is an `Observation` with
        `recovered` False and its console in `failure`; the engine restarts on its own.
        """

    @property
    def base(self) -> Path:
        """The image under every state; never modified."""

    @property
    def boots(self) -> int:
        """How many systems it has started so far."""


@runtime_checkable
class RecordsRecoveries(Protocol):
    """An engine that can put on record what a recovery does to the disk."""

    def record(
        self, writes: Sequence[ImageWrite], *, timeout_s: float
    ) -> tuple[Observation, bytes | Timeline | None]:
        """As `recover`; also a log as dm-log-writes keeps it, or what powercut's own disk has
        recorded; None if the kernel died."""


@runtime_checkable
class MapsFiles(Protocol):
    """An engine that can tell where the files of a recovered state lie on its disk."""

    def files(self, writes: Sequence[ImageWrite], *, timeout_s: float) -> tuple[FilePlace, ...]:
        """Of the base image with `writes` laid over it.  Raises HostError."""


@runtime_checkable
class DatesReads(Protocol):
    """An engine that can tell which files a program's check has read."""

    def files_read(
        self, writes: Sequence[ImageWrite], *, check: bool, timeout_s: float
    ) -> tuple[Observation, tuple[FileRead, ...] | None]:
        """As `recover`; also the files of the recovered state, None if that is not known.

        Without a `check` they are listed alone, and none was read.  Raises HostError.
        """


@runtime_checkable
class TracksReads(Protocol):
    """An engine that knows which places of the disk a recovery has read."""

    @property
    def reads(self) -> Reads | None:
        """Of the last recovery and its reader, a superset; None if that is not known."""


@runtime_checkable
class FollowsPlans(Protocol):
    """An engine that outlives a recording: it can be given another plan on the same base."""

    def follow(self, plan: RecoveryPlan, *, timeout_s: float) -> None:
        """Recovers by `plan` from now on, without another boot."""

    def is_up(self) -> bool:
        """Whether its system runs."""

    def close(self) -> None:
        """Ends whatever it started; idempotent."""


@runtime_checkable
class BootsRecordedKernel(Protocol):
    """An engine that recovers with the very kernel that the recording was made with."""

    def require_kernel(self, versions: Mapping[str, str]) -> None:
        """Raises HostError unless it has here the kernel that `versions` of a recording name."""


@runtime_checkable
class SecondLook(Protocol):
    """An engine that decides some states in a shorter way, and all of them in a longer one.

    `doubts` says why the shorter way is not to be believed, empty if it is; `on_host` and
    `same_files` count the states that were decided by it, and `was_short` says whether the last
    one was.
    """

    doubts: tuple[str, ...]
    on_host: int
    same_files: int
    was_short: bool

    def look_again(self, writes: Sequence[ImageWrite], *, timeout_s: float) -> Observation:
        """As `recover`, the longer way."""


# Which files a check has read, as a guest tells it (guests/common/reads.h).
#
# Paths are a stranger's: they are told as a terminal may show them.

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
