# SPDX-License-Identifier: Apache-2.0
"""What every trial needs of the host, found once."""

from __future__ import annotations

import importlib
import os
import platform
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol, Self, cast

from powercut import __version__
from powercut.disk.root_cache import mark_used
from powercut.disk.root_image import Ingredients, RootImage, ensure_program_image, ensure_root_image
from powercut.machine.port import (
    Attachment,
    Disk,
    FileDisk,
    MachineBackend,
    MachineSpec,
    NbdDisk,
    NbdFile,
    Role,
)
from powercut.model.errors import HostError, UsageError
from powercut.model.machine import Aio, Bus
from powercut.paths import CACHE
from powercut.rig import commands
from powercut.rig.host_files import kernel_options, program_versions, require_same_program
from powercut.rig.program_files import changed_files, program_files
from powercut.rig.scratch import require_room_for_sockets
from powercut.rig.unpacked import packages_of, source_of
from powercut.scenario.machines import USUAL, row_of
from powercut.scenario.place import Files, machines_of_disks, place_of
from powercut.scenario.plan import Cell, Plan
from powercut.scenario.settings import AcceleratorChoice, MachineSettings, Parameters
from powercut.workload.port import Run
from powercut.workload.table import workload_of

NO_RUN: Final = Run(bytes(16))
"""For what is described, and not started."""


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
        return self.backend(place_of(parameters).machine)

    @classmethod
    def find(cls, cache: Path = CACHE) -> Self:
        """The rig of this host, ready for virtual machines; builds the guest image if it is not
        there.

        Raises HostError with a remedy if something is missing.
        """
        rig = cls(cache)
        rig.machines.environment((AcceleratorChoice.AUTO,))
        return rig

    def versions(self, parameters: Parameters) -> dict[str, str]:
        """Exactly what a cell ran on: the machine's parts, with digests; or User-Mode Linux, and
        the program.
        """
        spec = self.machine_spec(parameters, Path("disk"))
        found = self.backend_of(parameters).versions(spec)
        if place_of(parameters).files in (Files.HOST, Files.UNPACKED):
            return found | program_versions(parameters)
        root = self.root_image(parameters)
        if root is None:
            return found
        found |= {**packages_of(parameters, self.cache), "root_sha256": root.sha256}
        program = self.program_image(parameters)
        return found if program is None else {**found, "program_folder_sha256": program.sha256}

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
        cells = (cell.parameters for cell in plan.cells)
        for name, machine in dict.fromkeys((place_of(one).machine, one.machine) for one in cells):
            if problems := self.backend(name).problems(machine):
                raise HostError("; ".join(problems))
        for cell in plan.cells:
            self.root_image(cell.parameters)
            self.program_image(cell.parameters)
            commands.recovery_plan(cell.parameters, bytes(16))  # unpacks a root that needs it
        for machine in _versions_of(plan):
            self.versions(Parameters(machine=machine))

    def machine_spec(
        self,
        parameters: Parameters,
        disk: Path | Disk,
        *,
        backing: Path | None = None,
        run: Run = NO_RUN,
    ) -> MachineSpec:
        """The machine of a cell on `disk`; a path is that of the socket on which it is served.

        `backing` is what an overlay lies over; one that is only described needs none, and is of no
        `run`, which the root of a kernel on this host knows.
        """
        machine = parameters.machine
        if not place_of(parameters).virtual:
            assert isinstance(disk, Path), "the disk of a kernel on this host is served"
            return MachineSpec(
                (Attachment(Role.UNDER_TEST, NbdDisk(disk)),),
                options=kernel_options(parameters, run),
            )
        if parameters.disk.parts:
            under_test = self._several(parameters, disk)
        else:
            if isinstance(disk, Path):
                disk = _served(machine, disk, parameters.disk.size)
            attached = Attachment(
                Role.UNDER_TEST,
                disk,
                machine.bus,
                machine.host_cache,
                commands.image_layer(parameters, backing),
                queueing=machine.queueing,
            )
            under_test = (attached,)
        return MachineSpec(
            (*under_test, *self._root(parameters)),
            memory_mib=machine.memory >> 20,
            cpus=machine.cpus,
            kernel=machine.kernel,
            kernel_arguments=machine.kernel_arguments,
            accelerator=machine.accelerator,
            start=machine.start,
            options=self.backend_of(parameters).options(machine),
        )

    def _several(self, parameters: Parameters, whole: Path | Disk) -> tuple[Attachment, ...]:
        """Each disk, of a capture disk that serves all or of an image in which all lie."""
        backend = self.backend_of(parameters)
        attached = []
        machines = machines_of_disks(parameters)
        for part, machine in zip(parameters.disk.parts, machines, strict=True):
            if isinstance(whole, Path):
                disk: Disk = _served(machine, whole, part.size, part.name)
            else:
                assert isinstance(whole, FileDisk), "several disks are captured, or in an image"
                disk = FileDisk(whole.path, whole.aio, part.size, part.offset)
            attached.append(
                Attachment(
                    Role.UNDER_TEST,
                    disk,
                    machine.bus,
                    machine.host_cache,
                    size=part.size,
                    serial=part.name,
                    options=backend.options(machine),
                    queueing=machine.queueing,
                )
            )
        return tuple(attached)

    def _root(self, parameters: Parameters) -> tuple[Attachment, ...]:
        images = {
            Role.ROOT: self.root_image(parameters),
            Role.PROGRAM: self.program_image(parameters),
        }
        for image in images.values():
            if image is not None:
                mark_used(image.path)
        return tuple(
            Attachment(role, FileDisk(image.path))
            for role, image in images.items()
            if image is not None
        )

    def root_image(self, parameters: Parameters) -> RootImage | None:
        """The root file system of a program in a guest, made if need be; None for what has none.

        Raises UsageError for what is no root file system, HostError.
        """
        source = self._root_source(parameters)
        return None if source is None else ensure_root_image(source, self.cache)

    def program_image(self, parameters: Parameters) -> RootImage | None:
        """The image of the folder of this host that comes into that root; None without one."""
        folder = commands.contents_of(parameters).program
        if place_of(parameters).files is not Files.IMAGE or folder is None:
            return None
        return ensure_program_image(folder, self.cache)

    def _root_source(self, parameters: Parameters) -> Ingredients | None:
        root = commands.contents_of(parameters).root
        if place_of(parameters).files is not Files.IMAGE or root is None:
            return None
        return source_of(root, self.cache)

    def environment(self, plan: Plan | None = None) -> dict[str, Any]:
        """What a reader of the results has to know of this host.

        With a `plan`: also each version of a machine that its cells and their controls run on.
        """
        found: dict[str, Any] = {
            "versions": [
                {
                    "machine.qemu": machine.qemu,
                    **_after_move(machine),
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
            usual = (AcceleratorChoice.AUTO,)
            here = self.backend(name).environment(
                usual if plan is None else accelerators_of(plan, name)
            )
            found |= {f"machine.{name}": here} if number else here
        return found


def _served(machine: MachineSettings, socket: Path, size: int, export: str = "") -> Disk:
    if machine.bus.pmem or machine.aio is not Aio.NBD:
        return NbdFile(socket, size, machine.aio, grows=machine.grows, export=export)
    return NbdDisk(socket, export)


def backends_of(plan: Plan) -> tuple[str, ...]:
    """The machine backends that the cells of `plan` need, each once; empty if none does."""
    return tuple(
        dict.fromkeys(
            place.machine for cell in plan.cells if (place := place_of(cell.parameters)).virtual
        )
    )


def accelerators_of(plan: Plan, backend: str) -> tuple[AcceleratorChoice, ...]:
    """What the cells of `plan` ask for whose machines are of that backend, each once."""
    return tuple(
        dict.fromkeys(
            cell.parameters.machine.accelerator
            for cell in plan.cells
            if place_of(cell.parameters).machine == backend
        )
    )


def require_recorded_program(
    parameters: Parameters, versions: Mapping[str, str], files: Mapping[str, str]
) -> None:
    """Raises HostError if a program that recovers and checks a state is not what was recorded.

    Another check may read what is there in another way: its word would be no evidence.  `files` are
    those that were recorded (powercut.rig.program_files), so that the error names what differs.
    """
    match place_of(parameters).files:
        case Files.IMAGE:
            _require_same_root(parameters, versions, files)
        case Files.HOST | Files.UNPACKED:
            require_same_program(parameters, versions, files)


def _require_same_root(
    parameters: Parameters, versions: Mapping[str, str], files: Mapping[str, str]
) -> None:
    """Raises HostError if the root file system of a program in a guest is another one now."""
    rig = Rig()
    now, program = rig.root_image(parameters), rig.program_image(parameters)
    if now is None:
        return
    folder = versions.get("program_folder_sha256")
    same = versions.get("root_sha256") == now.sha256 and folder == (
        None if program is None else program.sha256
    )
    if not same:
        told = changed_files(files, program_files(parameters))
        raise HostError(
            "the root file system, or the program in it, has changed since the recording was made"
            f"{told and f': {told}'}",
            hint="put back what was recorded, or record again",
        )


def _after_move(machine: MachineSettings) -> dict[str, str]:
    there = machine.qemu_after_move
    return {} if there is None else {"machine.qemu_after_move": there}


def _machines_of(plan: Plan) -> Iterator[MachineSettings]:
    for cell in plan.cells:
        if place_of(cell.parameters).virtual:
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
                qemu_after_move=machine.qemu_after_move,
                kernel=machine.kernel,
                bus=bus,
            )
            key = (
                machine.backend,
                machine.connect,
                machine.qemu,
                machine.qemu_after_move,
                machine.kernel,
                bus.flavour,
            )
            wanted.setdefault(key, reduced)
    return tuple(wanted.values())


# Machine backends by name, loaded when they are used; the names: powercut.scenario.machines.


class _BackendClass(Protocol):
    def __call__(self, cache: Path) -> MachineBackend:
        """A backend that keeps what it makes in `cache`."""


def machine_backend(name: str, cache: Path) -> MachineBackend:
    """The backend called `name`, which keeps what it makes in the folder `cache`.

    Raises KeyError for a name that is not in the table.
    """
    module, _, attribute = row_of(name).place.partition(":")
    return cast(_BackendClass, vars(importlib.import_module(module))[attribute])(cache)


# What a cell will run, without running it.


@cache
def _rig() -> Rig:
    return Rig.find()


def describe_cell(cell: Cell) -> list[str]:
    """The command line of the cell's machine, paths of sockets left open; of a program on this
    host's files its own.

    Raises HostError if a part of the machine cannot be had.
    """
    if not place_of(cell.parameters).virtual:
        return list(workload_of(cell.parameters).writer(Run(bytes(16))))
    folder = Path("RUN")
    machines = (rig := _rig()).backend_of(cell.parameters)
    spec = rig.machine_spec(cell.parameters, folder / "disk", backing=folder / "backing.img")
    return machines.describe(replace(spec, hotplug=cell.parameters.machine.hotplug), folder)
