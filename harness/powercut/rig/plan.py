# SPDX-License-Identifier: Apache-2.0
"""What a cell will run, without running it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from powercut.rig.rig import Rig
from powercut.scenario.place import place_of
from powercut.scenario.plan import Cell
from powercut.workload.port import Run
from powercut.workload.table import workload_of


@cache
def _rig() -> Rig:
    """The rig of this host: of all cells of a plan the same."""
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
