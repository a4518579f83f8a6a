# SPDX-License-Identifier: Apache-2.0
"""The raw engine: the log on a device itself, read on this host from a patched image.

Recovery of such a log is its reader alone, which reads and writes nothing.  Reading states
in bulk, without an image, is powercut.recover.raw.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from powercut.closing import ResourceOwner
from powercut.model.errors import HostError, UsageError
from powercut.model.observation import Observation
from powercut.recover.order import EngineOrder
from powercut.recover.plan import OpenDevice, Read, RecoveryPlan
from powercut.recover.port import ImageWrite
from powercut.recover.uml.origin import PAGE, Origin
from powercut.rig.host_reader import reader_on_host, run_reader
from powercut.rig.scratch import scratch
from powercut.scenario.settings import Parameters


class RawEngine(ResourceOwner):
    """Reads states of `base` from a file that is patched from one to the next."""

    def __init__(
        self, base: Path, plan: RecoveryPlan, parameters: Parameters | None = None
    ) -> None:
        """`parameters` say whose the reader is; by default the usual workload's.

        Raises UsageError for a recovery that is more than reading.
        """
        super().__init__()
        if any(not isinstance(step, OpenDevice | Read) for step in plan.steps):
            raise UsageError(
                "engine raw reads logs on a raw device, and nothing else",
                hint="--engine uml, or guest",
            )
        self._origin = Origin(base)
        self._base = base
        self._words = plan.reader
        self._parameters = parameters or Parameters()
        self._image: Path | None = None
        self._argv: tuple[str, ...] = ()

    @classmethod
    def of(cls, order: EngineOrder) -> Self:
        return cls(order.base, order.plan, order.parameters)

    @property
    def base(self) -> Path:
        return self._base

    @property
    def boots(self) -> int:
        return 0

    def _open(self, stack: ExitStack) -> None:
        self._image = stack.enter_context(scratch()) / "disk"
        self._argv = reader_on_host(self._parameters, self._words, self._image)

    def start(self, *, timeout_s: float) -> None:
        """Makes the image.  Raises HostError if there is no room."""
        del timeout_s
        if self._image is None:
            raise HostError("the raw engine has not been opened")
        try:
            with self._image.open("wb") as file:
                file.truncate(self._origin.size)
                self._put(file.fileno(), self._origin.filled())
        except OSError as error:
            raise HostError(
                f"{self._image}: {error.strerror}",
                hint="free some space, or set TMPDIR to where there is",
            ) from error

    def recover(self, writes: Sequence[ImageWrite], *, timeout_s: float) -> Observation:
        """The log as the reader finds it, with `writes` over the base image, in order."""
        if self._image is None or not self._image.exists():
            raise HostError("the raw engine has not been started")
        with self._image.open("r+b") as file:
            self._put(file.fileno(), self._origin.advance(writes))
        return run_reader(self._argv, timeout_s=timeout_s)

    def _put(self, fd: int, pages: npt.NDArray[np.int64]) -> None:
        for page, data in zip(pages.tolist(), self._origin.content(pages), strict=True):
            os.pwrite(fd, data.tobytes(), page * PAGE)
