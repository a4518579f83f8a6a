# SPDX-License-Identifier: Apache-2.0
"""Recovery engines by name, loaded when they are used."""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Final, Protocol, cast

from powercut.recover.order import EngineOrder
from powercut.recover.port import (
    BootsRecordedKernel,
    FollowsPlans,
    RecordsRecoveries,
    RecoveryEngine,
)


@dataclass(frozen=True)
class EngineRow:
    """An engine: its class as `module:name`, and what follows from its being no more than that.

    `reader_alone`: recovery is the recorded reader and nothing else, so that no other kernel has to
    confirm what it finds, and states are read in bulk.  `boots`: the kernel that it brings along,
    by the role that certificates give it; empty for the recorded one, or for none.  `over`: the
    engine that it works with, which may have been lent.
    """

    place: str
    reader_alone: bool = False
    boots: str = ""
    over: str = ""


RECOVERY_KERNEL: Final = "recovery kernel"

ENGINES: Final[dict[str, EngineRow]] = {
    "raw": EngineRow("powercut.rig.raw_engine:RawEngine", reader_alone=True),
    "uml": EngineRow("powercut.recover.uml.engine:UmlEngine", boots=RECOVERY_KERNEL),
    "guest": EngineRow("powercut.rig.guest_engine:GuestEngine"),
    "program": EngineRow(
        "powercut.rig.program_engine:ProgramEngine", boots=RECOVERY_KERNEL, over="uml"
    ),
}
"""The rows by the engine's name."""


class EngineClass(Protocol):
    """A class of engines."""

    def of(self, order: EngineOrder) -> RecoveryEngine:
        """The engine for an order, not started."""


class EngineClassOver(Protocol):
    """A class of engines that work with another one."""

    def over(
        self, engine: RecoveryEngine, order: EngineOrder
    ) -> AbstractContextManager[RecoveryEngine]:
        """One that works with `engine`, which is up; leaving it leaves that as it is."""


def engine_class(name: str) -> EngineClass:
    """The class of the engine called `name`."""
    module, _, attribute = ENGINES[name].place.partition(":")
    return cast(EngineClass, vars(importlib.import_module(module))[attribute])


def open_over(
    name: str, engine: RecoveryEngine, order: EngineOrder
) -> AbstractContextManager[RecoveryEngine]:
    """The engine called `name` for an order, with `engine` for the one that it works with."""
    return cast(EngineClassOver, engine_class(name)).over(engine, order)


def open_engine(name: str, order: EngineOrder) -> RecoveryEngine:
    """The engine called `name` for an order, not started."""
    return engine_class(name).of(order)


def start_engine(engine: RecoveryEngine, stack: ExitStack, *, timeout_s: float) -> None:
    """Starts `engine`; `stack` ends it, also if it does not start.  Raises HostError."""
    stack.enter_context(engine)
    engine.start(timeout_s=timeout_s)


def reader_alone(name: str) -> bool:
    """Whether recovery by engines called so is the recorded reader, and nothing to be confirmed."""
    return ENGINES[name].reader_alone


def records_recoveries(name: str) -> bool:
    """Whether engines called so can put on record what a recovery does."""
    return issubclass(cast(type, engine_class(name)), RecordsRecoveries)


def boots_recorded_kernel(name: str) -> bool:
    """Whether engines called so recover with the kernel of the recording."""
    return issubclass(cast(type, engine_class(name)), BootsRecordedKernel)


def follows_plans(name: str) -> bool:
    """Whether engines called so, or those that they work with, can go on with another recording on
    the same base."""
    return issubclass(cast(type, engine_class(ENGINES[name].over or name)), FollowsPlans)
