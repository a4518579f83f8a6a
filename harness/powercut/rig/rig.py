# SPDX-License-Identifier: Apache-2.0
"""What every trial needs of the host, found once."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

from powercut import __version__
from powercut.channel.guest_channel import GuestChannel
from powercut.machine.guest.image import ensure_guest_image
from powercut.machine.port import (
    GuestImage,
    ImageLayer,
    MachineSpec,
    NbdDisk,
    NbdFile,
    QemuBuild,
)
from powercut.machine.qemu.accelerator import best_accelerator, qemu_version
from powercut.machine.qemu.source import qemu_of
from powercut.machine.qemu.template import TemplateStore
from powercut.model.errors import HostError, PowercutError, UsageError
from powercut.model.machine import Accelerator, Aio, Bus, ImageFormat
from powercut.model.versions import GUEST
from powercut.paths import CACHE
from powercut.recover.uml.boot import unavailable
from powercut.rig import commands
from powercut.rig.host_files import versions_on_host_files
from powercut.scenario.plan import Plan
from powercut.scenario.settings import AcceleratorChoice, MachineSettings, Parameters, Switch
from powercut.workload.table import workload_of

_FETCH_S: Final = 900.0
"""For fetching a suite, once."""


class Rig:
    """Guest image, accelerator, templates, cache: the same for all trials of a run.

    What only a virtual machine needs is found when the first is asked for.
    """

    def __init__(self, cache: Path = CACHE) -> None:
        self.cache = cache
        self.templates = TemplateStore(cache / "templates", GuestChannel.on_unix)
        self._guests: dict[tuple[str, str], GuestImage] = {}

    @classmethod
    def find(cls, cache: Path = CACHE) -> Self:
        """The rig of this host, ready for virtual machines; builds the guest image if it is not
        there.

        Raises HostError with a remedy if something is missing.
        """
        rig = cls(cache)
        _ = rig.accelerator, rig.guest
        return rig

    @cached_property
    def guest(self) -> GuestImage:
        """The guest where nobody chose a kernel.  Raises HostError if it cannot be built."""
        return ensure_guest_image()

    @property
    def accelerator(self) -> Accelerator:
        """What runs guests here.  Raises HostError if nothing can."""
        return self._accelerator[0]

    @property
    def accelerator_reason(self) -> str:
        """Why it is that one."""
        return self._accelerator[1]

    @cached_property
    def _accelerator(self) -> tuple[Accelerator, str]:
        return best_accelerator()

    def _guest_for(self, machine: MachineSettings) -> GuestImage:
        """The guest of that version whose kernel has a driver for the bus; built if need be."""
        flavour = machine.bus.flavour
        if (machine.kernel, flavour) == (GUEST, "cloud"):
            return self.guest
        key = (machine.kernel, flavour)
        if key not in self._guests:
            with _naming("machine.kernel", machine.kernel):
                self._guests[key] = ensure_guest_image(flavour, kernel=machine.kernel)
        return self._guests[key]

    @staticmethod
    def _qemu_for(machine: MachineSettings) -> QemuBuild:
        """The QEMU of that version; fetched if need be."""
        with _naming("machine.qemu", machine.qemu):
            return qemu_of(machine.qemu, deadline=time.monotonic() + _FETCH_S)

    def versions(self, parameters: Parameters) -> dict[str, str]:
        """Exactly what a cell ran on: QEMU and the guest's kernel, with digests; or User-Mode
        Linux, and the program.
        """
        if commands.on_host_files(parameters):
            return versions_on_host_files(parameters)
        qemu = self._qemu_for(parameters.machine)
        guest = self._guest_for(parameters.machine)
        return {
            **{f"qemu_{name}": value for name, value in qemu.facts().items()},
            "kernel_release": guest.kernel_release,
            "kernel_package": guest.package,
            "guest_digest": guest.digest,
        }

    def prepare(self, plan: Plan) -> None:
        """Makes now what a first trial would otherwise wait for, within its deadline.

        Raises HostError with a remedy if something cannot be had, UsageError for a program that
        is not there.
        """
        for cell in plan.cells:
            if problems := workload_of(cell.parameters).problems():
                raise UsageError(
                    f"{cell.name}: {problems[0]}",
                    hint="`workload.command` begins at the folder of the scenario",
                )
            if commands.on_host_files(cell.parameters) and (reasons := unavailable()):
                raise HostError("programs cannot be run here: " + "; ".join(reasons))
        for machine in _versions_of(plan):
            self._qemu_for(machine)
            self._guest_for(machine)

    def machine_spec(self, parameters: Parameters, disk: Path, folder: Path) -> MachineSpec:
        """The machine of a cell on the disk served at `disk`.

        The machine's sockets go into `folder`.
        """
        machine = parameters.machine
        chosen = machine.accelerator
        return MachineSpec(
            guest=self._guest_for(machine),
            qemu=self._qemu_for(machine),
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

    def environment(self, plan: Plan | None = None) -> dict[str, Any]:
        """What a reader of the results has to know of this host.

        With a `plan`: also each QEMU and each kernel that its cells and their controls run on.
        """
        found: dict[str, Any] = {
            "versions": [
                {
                    "machine.qemu": machine.qemu,
                    "machine.kernel": machine.kernel,
                    "flavour": machine.bus.flavour,
                    **self.versions(Parameters(machine=machine)),
                }
                for machine in (_versions_of(plan) if plan is not None else ())
            ],
            "powercut": __version__,
            "python": platform.python_version(),
            "host": {
                "kernel": platform.release(),
                "system": platform.freedesktop_os_release().get("PRETTY_NAME", ""),
                "cpus": os.cpu_count(),
            },
        }
        if plan is None or needs_machines(plan):
            reason = {"name": self.accelerator.value, "reason": self.accelerator_reason}
            guest = {"kernel": self.guest.kernel_release, "digest": self.guest.digest}
            found |= {"qemu": qemu_version(), "accelerator": reason, "guest": guest}
        return found


def needs_machines(plan: Plan) -> bool:
    """Whether any cell of `plan` runs in a virtual machine."""
    return any(not commands.on_host_files(cell.parameters) for cell in plan.cells)


def _versions_of(plan: Plan) -> tuple[MachineSettings, ...]:
    """As much of the plan's machines as decides on versions, each once.

    The honest control of a cell has a virtio disk (powercut.trial.controls), so another flavour of
    kernel where the cell's bus wants the full one.
    """
    wanted: dict[tuple[str, str, str], MachineSettings] = {}
    for cell in plan.cells:
        if commands.on_host_files(cell.parameters):
            continue
        machine = cell.parameters.machine
        for bus in (machine.bus, Bus.VIRTIO_BLK):
            reduced = MachineSettings(qemu=machine.qemu, kernel=machine.kernel, bus=bus)
            wanted.setdefault((machine.qemu, machine.kernel, bus.flavour), reduced)
    return tuple(wanted.values())


@contextmanager
def _naming(key: str, choice: str) -> Iterator[None]:
    """Errors inside say which setting they are about."""
    try:
        yield
    except PowercutError as error:
        raise type(error)(f"{key}: {choice}: {error}", hint=error.hint) from None
