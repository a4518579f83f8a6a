# SPDX-License-Identifier: Apache-2.0
"""The engine for recordings of programs, as an order asks for it."""

from __future__ import annotations

from powercut.recover.native.engine import NativeEngine
from powercut.recover.order import EngineOrder
from powercut.recover.uml.engine import UmlEngine
from powercut.workload.program.workload import ProgramWorkload


class ProgramEngine(NativeEngine):
    """Mounts in User-Mode Linux and checks on the host, where that says the same."""

    @classmethod
    def of(cls, order: EngineOrder) -> ProgramEngine:
        """The engine for `order`, whose parameters are those of a program."""
        checks = ProgramWorkload(order.parameters).argv("checks")
        return cls(UmlEngine.of(order), order.plan, checks)
