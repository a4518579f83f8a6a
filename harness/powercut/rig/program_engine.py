# SPDX-License-Identifier: Apache-2.0
"""The engine for recordings of programs, as an order asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from powercut.recover.native.engine import Guest, NativeEngine
from powercut.recover.order import EngineOrder
from powercut.recover.uml.engine import UmlEngine
from powercut.workload.program.workload import ProgramWorkload


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
