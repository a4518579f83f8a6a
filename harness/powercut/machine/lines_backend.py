# SPDX-License-Identifier: Apache-2.0
"""Backends of machines that no emulator runs, and whose programs speak in lines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path

from powercut.machine.port import MachineAndChannel, MachineSpec
from powercut.model.binding import NOT_BOUND
from powercut.scenario.settings import AcceleratorChoice


class LinesBackend(ABC):
    """Lines reach the controller as they are: there is no wire format to bind to a recording."""

    def environment(self, accelerators: Iterable[AcceleratorChoice]) -> dict[str, object]:
        del accelerators
        return {}

    def emulates(self, accelerator: AcceleratorChoice) -> bool:
        del accelerator
        return False

    def open(
        self,
        spec: MachineSpec,
        folder: Path,
        *,
        history: Path | None = None,
        digest: bytes = NOT_BOUND,
    ) -> AbstractContextManager[MachineAndChannel]:
        """As the port says; nothing is written to `history`."""
        del history, digest
        return self.opened(spec, folder)

    @abstractmethod
    def opened(self, spec: MachineSpec, folder: Path) -> AbstractContextManager[MachineAndChannel]:
        """The machine, off, and its channel; leaving the context ends both."""
