# SPDX-License-Identifier: Apache-2.0
"""What a host is, as far as two hosts have to be the same to make trials of one run."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from powercut import __version__
from powercut.machine.patience import processor_model
from powercut.paths import PACKAGE, SHIPPED
from powercut.rig.components import components_of, recovery_kernel_part
from powercut.rig.engine_choice import EngineChoice
from powercut.rig.rig import Rig
from powercut.scenario.plan import Plan
from powercut.store.component import Component

Identity = Mapping[str, str]
"""What matters of a host; each part by a name for a reader."""


def identity_for_run(rig: Rig, plan: Plan) -> Identity:
    """What this host is for the trials of `plan`.  Raises HostError if a part cannot be had."""
    parts = _own()
    found = rig.environment(plan)
    others = {key: value for key, value in found.items() if key.startswith("machine.")}
    for name, here in {"machine": found, **others}.items():
        if isinstance(proof := here.get("accelerator"), dict):
            parts[f"accelerator of {name}"] = str(proof["name"])
    run = components_of(rig, plan.cells)
    for cell in plan.cells:
        for index in run.cells[cell.name]:
            part = run.components[index]
            parts[f"{part.role} of {cell.name}"] = _told(part)
        for name, version in rig.versions(cell.parameters).items():
            parts[f"{name} of {cell.name}"] = version
    return parts


def identity_for_states(choice: EngineChoice) -> Identity:
    """What this host is for the crash states of a recording."""
    parts = _own()
    if choice.kernel is not None:
        parts["recovery kernel"] = _told(recovery_kernel_part(choice.kernel))
    return parts


def differences(here: Identity, there: Identity) -> Iterator[str]:
    """In what another host is not as this one."""
    for name in dict.fromkeys((*here, *there)):
        mine, other = here.get(name, "none"), there.get(name, "none")
        if mine != other:
            yield f"{name} is {other} there, and {mine} here"


def _own() -> dict[str, str]:
    return {
        "powercut": f"{__version__} ({_code()[:16]})",
        "processor": processor_model() or "unknown",
    }


@functools.cache
def _code() -> str:
    """SHA-256 over the modules of powercut and its extras, 64 hex digits: the same in a checkout
    and of its wheel."""
    digest = hashlib.sha256()
    for package in (PACKAGE, Path(__file__).parents[1]):
        for path in sorted(set(package.rglob("*.py")) - set(SHIPPED.rglob("*.py"))):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{path.relative_to(package.parent).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()


def _told(part: Component) -> str:
    digest = f" ({part.sha256[:12]})" if part.sha256 else ""
    return f"{part.name} {part.version}{digest}"
