# SPDX-License-Identifier: Apache-2.0
"""The port to a recovery engine: given a disk, what does the system make of it?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from powercut.model.observation import Observation

NO_SUCH_SLOT: Final = 2
"""The exit status of a writer that has no slot for the LSN it is to go on with: of `wal`, for
any arguments that cannot work (docs/adding-a-workload.md)."""


@dataclass(frozen=True)
class ImageWrite:
    """Bytes to lay over an image at `offset` (bytes); `data` None means `length` zeroes."""

    offset: int
    length: int
    data: npt.NDArray[np.uint8] | None


@dataclass(frozen=True)
class HostRoot:
    """The host's own files, read-only, as the root of programs in the guest.

    They start in `folder` with `environment` (NAME=VALUE each).  /tmp, /run, /var/tmp and
    /dev/shm are empty and writable there, but for the folders in `visible`.  What a program
    writes to descriptor 3 comes back as it is (`Observation.lines`).
    """

    folder: str
    environment: tuple[str, ...]
    visible: tuple[str, ...] = ()


@dataclass(frozen=True)
class RecoveryPlan:
    """What recovery consists of.

    `filesystem` is the type to mount, empty for a raw log.  `reader` is the command
    line of the log reader in the guest, path first, without its channel.  `after` is
    the command line of a writer that goes on after recovery by `after_records` records, empty
    for none; the engine adds `first_lsn=N`, the record after the last one that came back.
    `device` is what the guest calls its disk; engines that have a disk of their own do not ask.
    `host` is for readers that are anybody's programs.
    """

    filesystem: str
    mount_options: str
    mount_point: str
    reader: tuple[str, ...]
    after: tuple[str, ...] = ()
    after_records: int = 0
    device: str = "vda"
    host: HostRoot | None = None

    def __post_init__(self) -> None:
        if bool(self.after) != (self.after_records > 0):
            raise ValueError(f"a writer that goes on by {self.after_records} records: {self.after}")


class RecoveryEngine(Protocol):
    """A sandboxed system that recovers one disk state after the other.

    It is a context manager; leaving the context ends whatever it started.  Between two
    states nothing leaks: no cached block, no write of the previous recovery.
    """

    def start(self, *, timeout_s: float) -> None:
        """Boots whatever the engine needs; the first `recover` may follow."""

    def recover(self, writes: Sequence[ImageWrite], *, timeout_s: float) -> Observation:
        """Recovers the engine's base image with `writes` laid over it, in order.

        If the plan has a writer that goes on, `later` of the observation says what came
        of it.  A kernel that panics, hangs or refuses to mount is an `Observation` with
        `recovered` False and its console in `failure`; the engine restarts by itself.
        """

    @property
    def base(self) -> Path:
        """The image under every state; never modified."""


@runtime_checkable
class SecondLook(Protocol):
    """An engine that decides some states in a shorter way, and all of them in a longer one.

    `doubts` says why the shorter way is not to be believed, empty if it is; `on_host` and
    `same_files` count the states that were decided by it.
    """

    doubts: tuple[str, ...]
    on_host: int
    same_files: int

    def look_again(self, writes: Sequence[ImageWrite], *, timeout_s: float) -> Observation:
        """As `recover`, the longer way."""
