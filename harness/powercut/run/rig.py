# SPDX-License-Identifier: Apache-2.0
"""What every trial needs of the host, found once."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from powercut import __version__
from powercut.channel.guest_channel import GuestChannel
from powercut.machine.accelerator import best_accelerator, qemu_version
from powercut.machine.guest_image import ensure_guest_image
from powercut.machine.port import GuestImage, ImageLayer, MachineSpec, NbdDisk, NbdFile
from powercut.machine.template import TemplateStore
from powercut.model.machine import Accelerator, Aio, Bus, ImageFormat
from powercut.paths import CACHE
from powercut.scenario.plan import Plan
from powercut.scenario.settings import AcceleratorChoice, Parameters, Switch


@dataclass(frozen=True)
class Rig:
    """Guest image, accelerator, templates, cache: the same for all trials of a run."""

    guest: GuestImage
    accelerator: Accelerator
    accelerator_reason: str
    templates: TemplateStore
    cache: Path

    @classmethod
    def find(cls, cache: Path = CACHE) -> Self:
        """The rig of this host; builds the guest image if it is not there.

        Raises HostError with a remedy if something is missing.
        """
        accelerator, reason = best_accelerator()
        templates = TemplateStore(cache / "templates", GuestChannel.on_unix)
        return cls(ensure_guest_image(), accelerator, reason, templates, cache)

    def _guest_for(self, bus: Bus) -> GuestImage:
        """The guest whose kernel has a driver for `bus`; built if it is not there."""
        return self.guest if bus.flavour == "cloud" else ensure_guest_image(bus.flavour)

    def prepare(self, plan: Plan) -> None:
        """Makes now what a first trial would otherwise wait for, within its deadline.

        Raises HostError with a remedy if something cannot be had.
        """
        for bus in {cell.parameters.machine.bus for cell in plan.cells}:
            self._guest_for(bus)

    def machine_spec(self, parameters: Parameters, disk: Path, folder: Path) -> MachineSpec:
        """The machine of a cell on the disk served at `disk`.

        The machine's sockets go into `folder`.
        """
        machine = parameters.machine
        chosen = machine.accelerator
        return MachineSpec(
            guest=self._guest_for(machine.bus),
            disk=NbdFile(disk, parameters.disk.size, machine.aio)
            if machine.bus.pmem or machine.aio is not Aio.NBD
            else NbdDisk(disk),
            channel=folder / "ctl",
            qmp=folder / "qmp",
            cache=machine.host_cache,
            bus=machine.bus,
            accelerator=self.accelerator
            if chosen is AcceleratorChoice.AUTO
            else Accelerator(chosen.value),
            layer=None
            if machine.format is ImageFormat.RAW
            else ImageLayer(machine.format, parameters.disk.size),
            start=machine.start,
            config_wce=None
            if machine.config_wce is Switch.AUTO
            else machine.config_wce is Switch.ON,
            memory_mib=machine.memory >> 20,
            cpus=machine.cpus,
            kernel_arguments=machine.kernel_arguments,
        )

    def environment(self) -> dict[str, Any]:
        """What a reader of the results has to know of this host."""
        return {
            "powercut": __version__,
            "python": platform.python_version(),
            "host": {
                "kernel": platform.release(),
                "system": platform.freedesktop_os_release().get("PRETTY_NAME", ""),
                "cpus": os.cpu_count(),
            },
            "qemu": qemu_version(),
            "accelerator": {"name": self.accelerator.value, "reason": self.accelerator_reason},
            "guest": {"kernel": self.guest.kernel_release, "digest": self.guest.digest},
        }
