# SPDX-License-Identifier: Apache-2.0
"""Exactly which programs and kernels a cell runs on: names, versions, packages, digests."""

from __future__ import annotations

import functools
import platform
import shlex
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from powercut.machine.package import output_of, package_of, sha256_of_file
from powercut.model.errors import PowercutError
from powercut.model.events import Notice
from powercut.model.verdict import EvidenceLevel
from powercut.model.versions import AFTER_MOVE, GUEST, HOST, is_path
from powercut.paths import CAPTURE_PLUGIN
from powercut.recover.native import check
from powercut.recover.uml.kernel import UmlKernel, host_kernel
from powercut.rig import commands
from powercut.rig.engine_choice import EngineChoice, choose_engine
from powercut.rig.engines import ENGINES, RECOVERY_KERNEL
from powercut.rig.host_files import executable_of, kernel_of, sha256_of, uml_release
from powercut.rig.rig import Rig
from powercut.rig.unpacked import packages_of, root_name, unpacked_root
from powercut.sandbox.confined import sandboxes
from powercut.sandbox.kernel import kernel_bubblewrap
from powercut.scenario.machines import LOOP, row_of
from powercut.scenario.place import Files, place_of
from powercut.scenario.plan import Cell
from powercut.scenario.settings import Parameters, ProgramSettings
from powercut.store.component import Component, Executed, RunComponents


def components_of(rig: Rig, cells: Iterable[Cell]) -> RunComponents:
    """What `cells` will run on.  Raises HostError if a part cannot be had."""
    components: dict[Component, int] = {}
    by_cell: dict[str, tuple[int, ...]] = {}
    executed: dict[Executed, None] = {}
    for cell in cells:
        place = place_of(cell.parameters)
        spec = rig.machine_spec(cell.parameters, Path("disk"))
        machine = rig.backend_of(cell.parameters).identity(spec)
        parts = _program_of(cell.parameters)
        parts += [Component(**asdict(part)) for part in machine]
        parts += _root_of(rig, cell.parameters)
        if place.evidence_level is EvidenceLevel.RECORDED:
            parts += [_capture_disk(), _nbdkit()]
        parts.append(_host_kernel())
        if not place.virtual:
            parts.append(recovery_kernel_part(kernel_of(cell.parameters)))
        elif _boots_recovery_kernel(cell.parameters):
            parts.append(recovery_kernel_part(host_kernel()))
        by_cell[cell.name] = tuple(components.setdefault(part, len(components)) for part in parts)
        executed |= dict.fromkeys(executed_by(cell.parameters, parts))
    return RunComponents(components=tuple(components), cells=by_cell, executed=tuple(executed))


def _program_of(parameters: Parameters) -> list[Component]:
    if place_of(parameters).virtual:
        return []
    program = executable_of(parameters)
    digest = sha256_of(program)
    return [
        Component(
            role="program",
            name=program.name,
            version=digest[:16],
            package=package_of(program),
            sha256=digest,
        )
    ]


def _root_of(rig: Rig, parameters: Parameters) -> list[Component]:
    """The root file system that a program has for itself: which database it was, for instance."""
    root = commands.contents_of(parameters).root
    if root is None:
        return []
    image = rig.root_image(parameters) or unpacked_root(root)
    name, _, packages = packages_of(parameters, rig.cache).get("root", "").partition(": ")
    if isinstance(root, Path):
        name = root.name
    return [
        Component(
            role="root file system",
            name=name,
            version=packages or image.sha256[:16],
            sha256=image.sha256,
        )
    ]


@functools.cache
def _capture_disk() -> Component:
    digest = sha256_of_file(CAPTURE_PLUGIN)
    return Component(
        role="capture disk", name=CAPTURE_PLUGIN.name, version=digest[:16], sha256=digest
    )


@functools.cache
def _nbdkit() -> Component:
    path = Path(shutil.which("nbdkit") or "nbdkit")
    return Component(
        role="disk server",
        name="nbdkit",
        version=output_of([str(path), "--version"]).splitlines()[0].removeprefix("nbdkit "),
        package=package_of(path),
        sha256=sha256_of_file(path),
    )


@functools.cache
def _host_kernel() -> Component:
    return Component(
        role="host kernel",
        name=platform.system(),
        version=f"{platform.release()} {platform.version()}",
    )


def _boots_recovery_kernel(parameters: Parameters) -> bool:
    choice = _explores_with(parameters)
    return choice is not None and ENGINES[choice.name].boots == RECOVERY_KERNEL


def _explores_with(parameters: Parameters) -> EngineChoice | None:
    unrecorded = place_of(parameters).evidence_level is not EvidenceLevel.RECORDED
    if unrecorded or parameters.explore.budget == "off":
        return None
    try:
        return choose_engine(parameters, parameters.explore.engine.value)
    except PowercutError:  # exploring will say so
        return None


def engine_fallback(cells: Iterable[Parameters]) -> tuple[Notice, ...]:
    """Why crash states of `cells` are not recovered by the fastest engine; none if all are."""
    choices = filter(None, map(_explores_with, cells))
    reason = next((choice.reason for choice in choices if choice.reason), "")
    text = f"Crash states are recovered by engine guest, which is slower: {reason}"
    return (Notice(text),) if reason else ()


@functools.cache
def recovery_kernel_part(kernel: UmlKernel) -> Component:
    """The User-Mode Linux that recovers crash states."""
    path = kernel.program
    return Component(
        role=RECOVERY_KERNEL,
        name="User-Mode Linux",
        version=uml_release(kernel),
        package=package_of(path),
        sha256=sha256_of_file(path),
    )


# What cells execute on this host: whose it is, by which digest, and what confines it.

_NOT: Final = "not confined"
_SEES_ALL: Final = "no view of files of its own"
_IN_MACHINE: Final = "in a virtual machine"
_CHOICES: Final = {"hypervisor": "qemu", AFTER_MOVE: "qemu_after_move", "guest kernel": "kernel"}
_WORDS: Final = {HOST: "this host", GUEST: "Debian, as this host's apt has it"}


@dataclass(frozen=True)
class Walls:
    """The sandboxes that work on this host, as far as they confine what a cell executes."""

    kernel: str
    check: str
    tools: str

    @classmethod
    def here(cls) -> Walls:
        """Those of this host."""
        works = not kernel_bubblewrap()
        kernel = "bubblewrap" if works else "" if sandboxes().landlock else "Landlock"
        return cls(kernel, "" if check.unavailable() else "bubblewrap", str(sandboxes()))


def executed_by(
    parameters: Parameters, parts: Iterable[Component], walls: Walls | None = None
) -> Iterator[Executed]:
    """What a cell that runs on `parts` executes."""
    walls = walls or Walls.here()
    for part in parts:
        if part.role in _CHOICES:
            yield _of_machine(parameters, part)
        elif part.role == "recovery kernel":
            yield recovery(part, walls)
    if isinstance(parameters.workload, ProgramSettings):
        yield from _of_program(parameters, parameters.workload, tuple(parts), walls)
    yield Executed(
        what="tools on images",
        command="mkfs, qemu-img, qemu-io, tar, debugfs",
        source="this host",
        confined=walls.tools or f"{_NOT}: there is no sandbox here",
    )


def _of_machine(parameters: Parameters, part: Component) -> Executed:
    choice = getattr(parameters.machine, _CHOICES[part.role]) or HOST
    kernel = part.role == "guest kernel"
    if is_path(choice):
        source = f"the path that the scenario names: {choice}"
    else:
        source = _WORDS.get(choice, f"Debian {choice}")
    if place_of(parameters).row.own_system:
        source = "a machine that is there already"
    own = "its own sandbox alone (-sandbox on), as the caller"
    return Executed(
        what=part.role,
        command=f"{part.name} {part.version}",
        sha256=part.sha256,
        source=f"{source}, package {part.package}" if part.package else source,
        confined=_IN_MACHINE if kernel else own,
    )


def recovery(part: Component, walls: Walls) -> Executed:
    """A User-Mode Linux of this host."""
    return Executed(
        what=part.role,
        command=f"{part.name} {part.version}",
        sha256=part.sha256,
        source=f"package {part.package}" if part.package else "this host, of no package",
        confined=f"{walls.kernel or _SEES_ALL}, no capability, few system calls",
    )


def _of_program(
    parameters: Parameters, program: ProgramSettings, parts: tuple[Component, ...], walls: Walls
) -> Iterator[Executed]:
    place, command = place_of(parameters), shlex.join(program.command)
    file = next((part for part in parts if part.role == "program"), None)
    root = commands.contents_of(parameters).root
    source = {
        Files.HOST: "this host's files",
        Files.MACHINE: "the files of a machine that is there already",
    }.get(place.files, f"the root file system {root_name(root)}" if root else "")
    if file is not None and file.package:
        source += f", package {file.package}"
    in_uml = f"User-Mode Linux, {walls.kernel or _SEES_ALL}"
    if place.row.own_system:
        runs = checks = f"{_NOT} by powercut: on that machine"
    elif place.machine == LOOP:
        runs = "namespaces of its own, as nobody"
        checks = in_uml
    elif row_of(place.machine).of_programs:
        runs = checks = in_uml
    else:
        runs = checks = _IN_MACHINE
    on_host = place.files in (Files.HOST, Files.UNPACKED) and not place.row.own_system
    if on_host and walls.check:
        checks = f"{walls.check} on this host, samples of it in {in_uml}"
    for what, how in (("program", runs), ("check", checks)):
        yield Executed(
            what=what,
            command=f"{command} {'run' if what == 'program' else 'check'}",
            sha256="" if file is None else file.sha256,
            source=source,
            confined=how,
        )
