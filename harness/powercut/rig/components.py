# SPDX-License-Identifier: Apache-2.0
"""Exactly which programs and kernels a cell runs on: names, versions, packages, digests."""

from __future__ import annotations

import functools
import platform
import shutil
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from powercut.machine.package import output_of, package_of, sha256_of_file
from powercut.model.errors import PowercutError
from powercut.model.events import Notice
from powercut.model.verdict import EvidenceLevel
from powercut.paths import CAPTURE_PLUGIN
from powercut.recover.uml.kernel import UmlKernel, host_kernel
from powercut.rig import commands
from powercut.rig.engine_choice import EngineChoice, choose_engine
from powercut.rig.engines import ENGINES, RECOVERY_KERNEL
from powercut.rig.executed import executed_by
from powercut.rig.host_files import executable_of, kernel_of, sha256_of, uml_release
from powercut.rig.rig import Rig
from powercut.rig.root_text import packages_of
from powercut.rig.unpacked import unpacked_root
from powercut.scenario.place import place_of
from powercut.scenario.plan import Cell
from powercut.scenario.settings import Parameters
from powercut.store.certify_order import RunComponents
from powercut.store.component import Component, Executed


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
    """The program, where it lies on this host."""
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
