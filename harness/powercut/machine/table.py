# SPDX-License-Identifier: Apache-2.0
"""Machine backends by name, loaded when they are used; the names: powercut.scenario.machines."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Protocol, cast

from powercut.machine.port import MachineBackend
from powercut.scenario.machines import row_of


class _BackendClass(Protocol):
    def __call__(self, cache: Path) -> MachineBackend:
        """A backend that keeps what it makes in `cache`."""


def machine_backend(name: str, cache: Path) -> MachineBackend:
    """The backend called `name`, which keeps what it makes in the folder `cache`.

    Raises KeyError for a name that is not in the table.
    """
    module, _, attribute = row_of(name).place.partition(":")
    return cast(_BackendClass, vars(importlib.import_module(module))[attribute])(cache)
