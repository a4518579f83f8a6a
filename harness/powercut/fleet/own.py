# SPDX-License-Identifier: Apache-2.0
"""What cells run that lies on this host alone, and cannot be carried elsewhere."""

from __future__ import annotations

from typing import Final

from powercut.fleet.cargo import needs_cargo
from powercut.model.errors import UsageError
from powercut.model.versions import CHOSEN, is_path
from powercut.rig import commands
from powercut.scenario.plan import Plan
from powercut.scenario.settings import Parameters
from powercut.workload.port import AcksByLines
from powercut.workload.table import workload_of

OWN_FILES: Final = (
    "workload.root: host: the program runs on all files of this host, its interpreter and "
    "libraries among them, and no other host is known to have the same"
)
CARRIABLE: Final = (
    "give it a root of its own, which is carried to each host: `root: debian` with `packages`, a "
    "folder, a tar or an OCI image, and `where: no-vm` if it needs no virtual machine; or run it "
    "here, without --hosts"
)


def runs_on_own_files(parameters: Parameters) -> bool:
    """Whether a program runs on the files of this host as they are."""
    by_lines = isinstance(workload_of(parameters), AcksByLines)
    return by_lines and not needs_cargo(parameters)


def refuse_own(plan: Plan) -> None:
    """Raises UsageError for a cell that runs something that lies on this host alone."""
    for cell in plan.cells:
        machine = cell.parameters.machine
        own = [f"machine.{key}" for key in CHOSEN if is_path(getattr(machine, key) or "")]
        if commands.on_own_system(cell.parameters) is not None:
            own.append("machine.host")
        if not own and runs_on_own_files(cell.parameters):
            raise UsageError(f"{cell.name}: {OWN_FILES}", hint=CARRIABLE)
        if own:
            raise UsageError(
                f"{cell.name}: {own[0]} is of this host alone, and no host of a fleet has it",
                hint="run such cells here, without --hosts",
            )
