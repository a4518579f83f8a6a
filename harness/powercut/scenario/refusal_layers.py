# SPDX-License-Identifier: Apache-2.0
"""Combinations with layers between disk and file system that are not built, or cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from powercut.model.errors import UsageError
from powercut.scenario.choices import SMALLEST_DISK
from powercut.scenario.machines import UML
from powercut.scenario.place import place_of
from powercut.scenario.quantity import format_size
from powercut.scenario.settings import Parameters, ProgramSettings
from powercut.scenario.settings_several import Holds

Reason = tuple[str, str]

_KEY: Final = "disk.layers"
_SECTOR: Final = 512


def refusals_of_layers(p: Parameters) -> Iterator[Reason]:
    """Why these layers cannot be used so: (dotted key, reason) each."""
    held = [disk.holds is Holds.LAYERS for disk in p.disk.also]
    if not p.disk.layers:
        if any(held):
            yield "disk.also", "`holds: layers` goes with disk.layers"
        return
    if not isinstance(p.workload, ProgramSettings) or place_of(p).machine != UML:
        yield (
            _KEY,
            "layers are activated in User-Mode Linux alone, below a program: workload.kind: "
            "program with `root: host`, or with `where: no-vm`",
        )
    if not all(held):
        yield "disk.also", "below layers each disk holds them: `holds: layers`"
    try:
        stack = p.disk.stack
    except UsageError as error:
        yield _KEY, str(error)
        return
    smallest = SMALLEST_DISK[p.filesystem.type]
    if stack is not None and stack.sectors * _SECTOR < smallest:
        yield (
            "disk.size",
            f"{p.filesystem.type.value} needs {format_size(smallest)}, and the layers leave "
            f"{format_size(stack.sectors * _SECTOR)} of it",
        )
