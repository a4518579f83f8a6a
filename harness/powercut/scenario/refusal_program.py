# SPDX-License-Identifier: Apache-2.0
"""Combinations that cannot work with anybody's program (powercut.scenario.refusal)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from powercut.model.contract import CutKind
from powercut.scenario.choices import ExploreEngine, FilesystemType
from powercut.scenario.settings import MachineSettings, Parameters, ProgramSettings

Reason = tuple[str, str]

_USUAL: Final = MachineSettings()


def refusals_of_program(parameters: Parameters) -> Iterator[Reason]:
    """Why the program cannot be run so: (dotted key, reason) each."""
    p, program = parameters, parameters.workload
    assert isinstance(program, ProgramSettings)
    if not Path(program.folder).is_absolute():
        yield "workload.folder", "a program starts in a folder: give an absolute path"
    if p.filesystem.type is FilesystemType.RAW:
        yield "filesystem.type", "a program keeps its data in a folder, which takes a file system"
    for key in MachineSettings.model_fields:
        if getattr(p.machine, key) != getattr(_USUAL, key):
            yield (
                f"machine.{key}",
                "with `root: host` a program runs in User-Mode Linux, without a virtual machine; "
                "leave it out",
            )
    if p.cut.kind is not CutKind.POWER_LOSS:
        yield "cut.kind", "what runs in User-Mode Linux is cut by power-loss; leave it out"
    if p.cut.trigger.flushes is not None:
        yield (
            "cut.trigger",
            "a program is cut after acks, or at a moment; use acks, after or random",
        )
    if p.explore.engine not in (ExploreEngine.AUTO, ExploreEngine.UML):
        yield "explore.engine", "a program's check runs in User-Mode Linux: leave it out"
