# SPDX-License-Identifier: Apache-2.0
"""What a host is, as far as two hosts have to be the same to make trials of one run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from powercut.fleet.messages import Hello
from powercut.fleet.wheels import installed_code
from powercut.machine.processor import processor_model
from powercut.rig.components import components_of, recovery_kernel_part
from powercut.rig.engine_choice import EngineChoice
from powercut.rig.rig import Rig, backends_of
from powercut.scenario.plan import Cell, Plan
from powercut.store.certificate import Component
from powercut.store.certify_order import RunComponents


def identity_of(rig: Rig, plan: Plan) -> Hello:
    """What this host is for `plan`.  Raises HostError if a part cannot be had."""
    return Hello(
        code=installed_code(),
        processor=processor_model(),
        machines={name: rig.backend(name).environment() for name in backends_of(plan)},
        components=components_of(rig, plan.cells),
    )


def study_identity(choice: EngineChoice) -> Hello:
    """What this host is for an exploration with an engine."""
    kernel = () if choice.kernel is None else (recovery_kernel_part(choice.kernel),)
    return Hello(
        code=installed_code(),
        processor=processor_model(),
        machines={},
        components=RunComponents(
            components=kernel, cells={"exploration": tuple(range(len(kernel)))}
        ),
    )


def differences(here: Hello, there: Hello) -> Iterator[str]:
    """In what the other host is not as this one; nothing if their trials may stand side by side.

    How an accelerator was proved may differ, which one it is may not.
    """
    if there.code != here.code:
        yield f"its powercut has files of digest {there.code[:16]}, and {here.code[:16]} here"
    if there.processor != here.processor:
        yield f"its processor is {there.processor or 'unknown'}, and {here.processor} here"
    for name, machine in here.machines.items():
        one, other = _accelerator(machine), _accelerator(there.machines.get(name))
        if one != other:
            yield f"{name} has accelerator {other} there, and {one} here"
    for name, parts in here.components.cells.items():
        mine = _parts(here, parts)
        others = _parts(there, there.components.cells.get(name, ()))
        for role in dict.fromkeys((*mine, *others)):
            if mine.get(role) != others.get(role):
                yield f"{role} is {_told(others.get(role))} there, and {_told(mine.get(role))} here"


def _accelerator(machine: Any) -> str:
    found = machine.get("accelerator") if isinstance(machine, dict) else None
    return str(found.get("name")) if isinstance(found, dict) else "none"


def _parts(hello: Hello, indices: Iterable[int]) -> dict[str, Component]:
    known = hello.components.components
    return {known[index].role: known[index] for index in indices if 0 <= index < len(known)}


def _told(part: Component | None) -> str:
    if part is None:
        return "missing"
    digest = f" (digest {part.sha256[:12]})" if part.sha256 else ""
    return f"{part.name} {part.version}{digest}"


def plan_of(scenario: str, cells: Iterable[Cell]) -> Plan:
    """As much of a plan as decides what a host needs."""
    return Plan(scenario, "", 0, tuple(cells))
