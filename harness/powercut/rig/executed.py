# SPDX-License-Identifier: Apache-2.0
"""What cells execute on this host: whose it is, by which digest, and what confines it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from powercut.model.versions import AFTER_MOVE, GUEST, HOST, is_path
from powercut.recover.native import check
from powercut.rig import commands
from powercut.rig.unpacked import root_name
from powercut.sandbox.confined import sandboxes
from powercut.sandbox.kernel import kernel_bubblewrap
from powercut.scenario.machines import LOOP, row_of
from powercut.scenario.place import Files, place_of
from powercut.scenario.settings import Parameters, ProgramSettings
from powercut.store.component import Component, Executed

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
    """The program, and its check."""
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
