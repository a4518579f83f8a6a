# SPDX-License-Identifier: Apache-2.0
"""Machine backends by name, loaded when they are used."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Final, Protocol, cast

from powercut.machine.port import MachineBackend

MACHINES: Final[dict[str, str]] = {
    "libvirt": "powercut.machine.libvirt.backend:LibvirtBackend",
    "qemu": "powercut.machine.qemu.backend:QemuBackend",
}
"""A backend's name, and where its class is."""

USUAL: Final = "qemu"


class _BackendClass(Protocol):
    def __call__(self, cache: Path) -> MachineBackend:
        """A backend that keeps what it makes in `cache`."""


def machine_backend(name: str, cache: Path) -> MachineBackend:
    """The backend called `name`, which keeps what it makes in the folder `cache`."""
    module, _, attribute = MACHINES[name].partition(":")
    return cast(_BackendClass, vars(importlib.import_module(module))[attribute])(cache)
