# SPDX-License-Identifier: Apache-2.0
"""What every trial needs of the host, found once."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from powercut import __version__
from powercut.disk.root_image import RootImage, ensure_root_image
from powercut.machine.guest.suite_packages import suite_packages, versions_of
from powercut.machine.port import (
    Attachment,
    Disk,
    FileDisk,
    ImageLayer,
    MachineBackend,
    MachineSpec,
    NbdDisk,
    NbdFile,
    Role,
)
from powercut.machine.table import machine_backend
from powercut.model.errors import HostError, UsageError
from powercut.model.machine import Aio, Bus, ImageFormat
from powercut.paths import CACHE
from powercut.recover.uml.boot import unavailable
from powercut.rig import commands, loop_guest
from powercut.rig.host_files import versions_on_host_files
from powercut.rig.scratch import require_room_for_sockets
from powercut.scenario.machines import USUAL
from powercut.scenario.plan import Plan
from powercut.scenario.settings import MachineSettings, Parameters
from powercut.workload.port import SuitePackages
from powercut.workload.table import workload_of


class Rig:
    """Machines and cache: the same for all trials of a run.

    What only a virtual machine needs is found when the first is asked for.
    """

    def __init__(self, cache: Path = CACHE, machines: MachineBackend | None = None) -> None:
        self.cache = cache
        self._given = machines
        self._backends: dict[str, MachineBackend] = {}
        self._finding = threading.Lock()

    @property
    def machines(self) -> MachineBackend:
        """The usual backend."""
        return self.backend(USUAL)

    def backend(self, name: str) -> MachineBackend:
        """The backend called `name`; the one that was given, if one was."""
        if self._given is not None:
            return self._given
        with self._finding:  # trials at the same time ask for the same one
            if name not in self._backends:
                self._backends[name] = machine_backend(name, self.cache)
            return self._backends[name]

    def backend_of(self, parameters: Parameters) -> MachineBackend:
        """What runs the machine of a cell."""
        return self.backend(parameters.machine.backend)

    @classmethod
    def find(cls, cache: Path = CACHE) -> Self:
        """The rig of this host, ready for virtual machines; builds the guest image if it is not
        there.

        Raises HostError with a remedy if something is missing.
        """
        rig = cls(cache)
        rig.machines.environment()
        return rig

    def versions(self, parameters: Parameters) -> dict[str, str]:
        """Exactly what a cell ran on: the machine's parts, with digests; or User-Mode Linux, and
        the program.
        """
        if commands.on_host_files(parameters):
            return versions_on_host_files(parameters)
        spec = self.machine_spec(parameters, Path("disk"))
        found = self.backend_of(parameters).versions(spec)
        root = self.root_image(parameters)
        if root is None:
            return found
        return {**found, **self._packages(parameters), "root_sha256": root.sha256}

    def prepare(self, plan: Plan) -> None:
        """Makes now what a first trial would otherwise wait for, within its deadline.

        Raises HostError with a remedy if something cannot be had, UsageError for a program that
        is not there.
        """
        require_room_for_sockets()
        for cell in plan.cells:
            if problems := workload_of(cell.parameters).problems():
                raise UsageError(
                    f"{cell.name}: {problems[0]}",
                    hint="`workload.command` begins at the folder of the scenario",
                )
            if commands.on_host_files(cell.parameters) and (reasons := unavailable()):
                raise HostError("programs cannot be run here: " + "; ".join(reasons))
            if commands.on_loop_device(cell.parameters) and (why := loop_guest.unavailable()):
                raise HostError("a program cannot run on a loop device: " + "; ".join(why))
            self.root_image(cell.parameters)
        for machine in dict.fromkeys(_machines_of(plan)):
            self._refuse(machine)
        for machine in _versions_of(plan):
            self.versions(Parameters(machine=machine))

    def _refuse(self, machine: MachineSettings) -> None:
        """Raises HostError with all that stands against such a machine here."""
        if problems := self.backend(machine.backend).problems(machine):
            raise HostError("; ".join(problems))

    def machine_spec(self, parameters: Parameters, disk: Path | Disk) -> MachineSpec:
        """The machine of a cell on `disk`; a path is that of the socket on which it is served."""
        machine = parameters.machine
        if isinstance(disk, Path):
            as_file = machine.bus.pmem or machine.aio is not Aio.NBD
            size = parameters.disk.size
            file = NbdFile(disk, size, machine.aio, grows=machine.grows)
            disk = file if as_file else NbdDisk(disk)
        raw = machine.format is ImageFormat.RAW
        layer = None if raw else ImageLayer(machine.format, parameters.disk.size)
        under_test = Attachment(Role.UNDER_TEST, disk, machine.bus, machine.host_cache, layer)
        return MachineSpec(
            (under_test, *self._root(parameters)),
            memory_mib=machine.memory >> 20,
            cpus=machine.cpus,
            kernel=machine.kernel,
            kernel_arguments=machine.kernel_arguments,
            accelerator=machine.accelerator,
            start=machine.start,
            options=self.backend_of(parameters).options(machine),
        )

    def _root(self, parameters: Parameters) -> tuple[Attachment, ...]:
        image = self.root_image(parameters)
        return () if image is None else (Attachment(Role.ROOT, FileDisk(image.path)),)

    def root_image(self, parameters: Parameters) -> RootImage | None:
        """The root file system of a program in a guest, made if need be; None for what has none.

        Raises UsageError for what is no root file system, HostError.
        """
        files = commands.in_root_of_its_own(parameters)
        if files is None:
            return None
        root = files.root
        if isinstance(root, SuitePackages):
            fetched = suite_packages(root.suite, root.packages, self.cache)
            return ensure_root_image(fetched, files.program, self.cache)
        return ensure_root_image(root, files.program, self.cache)

    def _packages(self, parameters: Parameters) -> dict[str, str]:
        """What a root was made from, for a reader."""
        files = commands.in_root_of_its_own(parameters)
        if files is None or not isinstance(files.root, SuitePackages):
            return {}
        root = files.root
        fetched = suite_packages(root.suite, root.packages, self.cache)
        named = versions_of(fetched, root.packages) or "essential packages alone"
        return {"root": f"Debian {root.suite}, {len(fetched)} packages: {named}"}

    def environment(self, plan: Plan | None = None) -> dict[str, Any]:
        """What a reader of the results has to know of this host.

        With a `plan`: also each version of a machine that its cells and their controls run on.
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
        for number, name in enumerate((USUAL,) if plan is None else backends_of(plan)):
            here = self.backend(name).environment()
            found |= {f"machine.{name}": here} if number else here
        return found


def backends_of(plan: Plan) -> tuple[str, ...]:
    """The machine backends that the cells of `plan` need, each once; empty if none does."""
    return tuple(
        dict.fromkeys(
            cell.parameters.machine.backend
            for cell in plan.cells
            if not commands.on_host_files(cell.parameters)
        )
    )


def require_same_root(parameters: Parameters, versions: Mapping[str, str]) -> None:
    """Raises HostError if the root file system of a program in a guest is another one now."""
    now = Rig().root_image(parameters)
    if now is not None and versions.get("root_sha256") != now.sha256:
        raise HostError(
            "the root file system, or the program in it, has changed since the recording was made",
            hint="put back what was recorded, or record again",
        )


def _machines_of(plan: Plan) -> Iterator[MachineSettings]:
    """The virtual machine of each cell that has one."""
    for cell in plan.cells:
        if not commands.on_host_files(cell.parameters):
            yield cell.parameters.machine


def _versions_of(plan: Plan) -> tuple[MachineSettings, ...]:
    """As much of the plan's machines as decides on versions, each once.

    The honest control of a cell has a virtio disk (powercut.trial.controls), so another flavour of
    kernel where the cell's bus wants the full one.
    """
    wanted: dict[tuple[str | None, ...], MachineSettings] = {}
    for machine in _machines_of(plan):
        for bus in (machine.bus, Bus.VIRTIO_BLK):
            reduced = MachineSettings(
                backend=machine.backend,
                connect=machine.connect,
                qemu=machine.qemu,
                kernel=machine.kernel,
                bus=bus,
            )
            key = (
                machine.backend,
                machine.connect,
                machine.qemu,
                machine.kernel,
                bus.flavour,
            )
            wanted.setdefault(key, reduced)
    return tuple(wanted.values())
