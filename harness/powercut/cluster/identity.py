# SPDX-License-Identifier: Apache-2.0
"""What a host is, as far as two hosts have to be the same to make trials of one run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from powercut.cluster.messages import Hello
from powercut.cluster.wheels import installed_code
from powercut.machine.processor import processor_model
from powercut.rig.components import components_of, recovery_kernel_part
from powercut.rig.engine_choice import EngineChoice
from powercut.rig.rig import Rig, accelerators_of, backends_of
from powercut.scenario.plan import Cell, Plan
from powercut.store.certificate import Component
from powercut.store.certify_order import RunComponents

_NO_PARTS: Final[Mapping[str, str]] = {}
"""Of programs: none is carried."""


def identity_of(rig: Rig, plan: Plan, parts: Mapping[str, str] = _NO_PARTS) -> Hello:
    """What this host is for `plan`, with the digests of the `parts` that were carried.

    Raises HostError if a component cannot be had.
    """
    machines = {
        name: rig.backend(name).environment(accelerators_of(plan, name))
        for name in backends_of(plan)
    }
    components = components_of(rig, plan.cells)
    return hello_of(parts).model_copy(update={"machines": machines, "components": components})


def study_identity(choice: EngineChoice, parts: Mapping[str, str] = _NO_PARTS) -> Hello:
    """What this host is for an exploration with an engine."""
    kernel = () if choice.kernel is None else (recovery_kernel_part(choice.kernel),)
    cells = {"exploration": tuple(range(len(kernel)))}
    components = RunComponents(components=kernel, cells=cells)
    return hello_of(parts).model_copy(update={"components": components})


def hello_of(parts: Mapping[str, str]) -> Hello:
    """What this host is for whatever it is asked; all that one says whose `parts` are others than
    those that were carried."""
    return Hello(
        code=installed_code(),
        processor=processor_model(),
        machines={},
        components=RunComponents(components=(), cells={}),
        parts=dict(parts),
    )


def differences(here: Hello, there: Hello) -> Iterator[str]:
    """In what the other host is not as this one; nothing if their trials may stand side by side.

    How an accelerator was proved may differ, which one it is may not.
    """
    others = list(_other_parts(here, there))
    yield from others
    if others:  # it looked no further
        return
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
        theirs = _parts(there, there.components.cells.get(name, ()))
        for role in dict.fromkeys((*mine, *theirs)):
            if mine.get(role) != theirs.get(role):
                yield f"{role} is {_told(theirs.get(role))} there, and {_told(mine.get(role))} here"


def _other_parts(here: Hello, there: Hello) -> Iterator[str]:
    for title in dict.fromkeys((*here.parts, *there.parts)):
        mine, other = here.parts.get(title, ""), there.parts.get(title, "")
        if mine != other:
            yield (
                f"{title} has digest {other[:16] or 'none'} there, and {mine[:16] or 'none'} "
                "was carried there"
            )


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
