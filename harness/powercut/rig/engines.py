# SPDX-License-Identifier: Apache-2.0
"""Recovery engines by name, loaded when they are used."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final, Protocol, Self, cast

from powercut.recover.native.engine import Guest, NativeEngine
from powercut.recover.order import EngineOrder
from powercut.recover.port import (
    BootsRecordedKernel,
    FollowsPlans,
    RecordsRecoveries,
    RecoveryEngine,
)
from powercut.recover.uml.engine import UmlEngine
from powercut.workload.program.workload import ProgramWorkload


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
    "program": EngineRow("powercut.rig.engines:ProgramEngine", boots=RECOVERY_KERNEL, over="uml"),
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


# The engine for recordings of programs, as an order asks for it.


class ProgramEngine(NativeEngine):
    """Mounts in User-Mode Linux and checks on the host, where that says the same."""

    @classmethod
    def of(cls, order: EngineOrder) -> Self:
        """The engine for `order`, whose parameters are those of a program."""
        return cls._with(UmlEngine.of(order), order)

    @classmethod
    @contextmanager
    def over(cls, engine: Guest, order: EngineOrder) -> Iterator[Self]:
        """The same with a User-Mode Linux that is up, and stays so."""
        made = cls._with(engine, order)
        try:
            yield made
        finally:
            made.let_go()

    @classmethod
    def _with(cls, guest: Guest, order: EngineOrder) -> Self:
        return cls(guest, order.plan, ProgramWorkload(order.parameters).argv("checks"))
