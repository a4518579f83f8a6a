# SPDX-License-Identifier: Apache-2.0
"""What cells run that lies on this host alone."""

from __future__ import annotations

from powercut.model.errors import UsageError
from powercut.model.versions import is_path
from powercut.rig import commands
from powercut.scenario.plan import Plan
from powercut.workload.port import AcksByLines
from powercut.workload.table import workload_of


def refuse_own(plan: Plan) -> None:
    """Raises UsageError for a cell that runs something that lies on this host alone."""
    for cell in plan.cells:
        machine = cell.parameters.machine
        own = [f"machine.{key}" for key in ("qemu", "kernel") if is_path(getattr(machine, key))]
        if isinstance(workload_of(cell.parameters), AcksByLines):
            own.append("workload.command")
        if commands.on_own_system(cell.parameters) is not None:
            own.append("machine.host")
        if own:
            raise UsageError(
                f"{cell.name}: {own[0]} is of this host alone, and no host of a fleet has it",
                hint="run such cells here, without --hosts",
            )
