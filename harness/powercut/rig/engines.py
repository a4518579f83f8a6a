# SPDX-License-Identifier: Apache-2.0
"""Recovery engines by name, loaded when they are used."""

from __future__ import annotations

import importlib
from contextlib import ExitStack
from typing import Final, Protocol, cast

from powercut.recover.order import EngineOrder
from powercut.recover.port import (
    BootsRecordedKernel,
    FollowsPlans,
    RecordsRecoveries,
    RecoveryEngine,
)

ENGINES: Final[dict[str, str]] = {
    "raw": "powercut.rig.raw_engine:RawEngine",
    "uml": "powercut.recover.uml.engine:UmlEngine",
    "guest": "powercut.rig.guest_engine:GuestEngine",
    "program": "powercut.rig.program_engine:ProgramEngine",
}
"""An engine's name, and where its class is."""


class EngineClass(Protocol):
    """A class of engines."""

    def of(self, order: EngineOrder) -> RecoveryEngine:
        """The engine for an order, not started."""


def engine_class(name: str) -> EngineClass:
    """The class of the engine called `name`."""
    module, _, attribute = ENGINES[name].partition(":")
    return cast(EngineClass, vars(importlib.import_module(module))[attribute])


def open_engine(name: str, order: EngineOrder) -> RecoveryEngine:
    """The engine called `name` for an order, not started."""
    return engine_class(name).of(order)


def start_engine(engine: RecoveryEngine, stack: ExitStack, *, timeout_s: float) -> None:
    """Starts `engine`; `stack` ends it, also if it does not start.  Raises HostError."""
    stack.enter_context(engine)
    engine.start(timeout_s=timeout_s)


def records_recoveries(name: str) -> bool:
    """Whether engines called so can put on record what a recovery does."""
    return issubclass(cast(type, engine_class(name)), RecordsRecoveries)


def boots_recorded_kernel(name: str) -> bool:
    """Whether engines called so recover with the kernel of the recording."""
    return issubclass(cast(type, engine_class(name)), BootsRecordedKernel)


def follows_plans(name: str) -> bool:
    """Whether engines called so can go on with another recording on the same base."""
    return issubclass(cast(type, engine_class(name)), FollowsPlans)
