# SPDX-License-Identifier: Apache-2.0
"""What cells run that lies on this host alone, and cannot be carried elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from powercut.cluster.cargo import program_digests
from powercut.model.errors import UsageError
from powercut.model.versions import CHOSEN, is_path
from powercut.rig.rig import Rig
from powercut.scenario.place import Files, place_of
from powercut.scenario.plan import Plan
from powercut.scenario.settings import Parameters

OWN_FILES: Final = (
    "workload.root: host: the program runs on all files of this host, its interpreter and "
    "libraries among them, and no other host is known to have the same"
)
CARRIABLE: Final = (
    "give it a root of its own, which is carried to each host: `root: debian` with `packages`, a "
    "folder, a tar or an OCI image, and `where: no-vm` if it needs no virtual machine; or run it "
    "here, without --cluster"
)


def runs_on_own_files(parameters: Parameters) -> bool:
    """Whether a program runs on the files of this host as they are."""
    return place_of(parameters).files in (Files.HOST, Files.MACHINE)


def programs_of(rig: Rig, plan: Plan) -> dict[str, dict[str, str]]:
    """The digests of the carried programs, by cell.  Raises HostError."""
    found = {cell.name: program_digests(rig, cell.parameters) for cell in plan.cells}
    return {name: digests for name, digests in found.items() if digests}


def require_same_programs(
    then: Mapping[str, Mapping[str, str]], now: Mapping[str, Mapping[str, str]]
) -> None:
    """Raises UsageError if a run that is resumed began with other programs.

    What hosts have made of them then would stand beside what they make now.
    """
    for name in dict.fromkeys((*then, *now)):
        if then.get(name) != now.get(name):
            raise UsageError(
                f"{name}: its program or its root has changed since the run began",
                hint="put back what was there, or begin a new run",
            )


def refuse_own(plan: Plan) -> None:
    """Raises UsageError for a cell that runs something that lies on this host alone."""
    for cell in plan.cells:
        machine = cell.parameters.machine
        own = [f"machine.{key}" for key in CHOSEN if is_path(getattr(machine, key) or "")]
        if place_of(cell.parameters).files is Files.MACHINE:
            own.append("machine.host")
        if not own and runs_on_own_files(cell.parameters):
            raise UsageError(f"{cell.name}: {OWN_FILES}", hint=CARRIABLE)
        if own:
            raise UsageError(
                f"{cell.name}: {own[0]} is of this host alone, and no host of a cluster has it",
                hint="run such cells here, without --cluster",
            )
