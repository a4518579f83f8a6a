# SPDX-License-Identifier: Apache-2.0
"""Which workload a cell has: a table of import strings by `workload.kind`, loaded when used."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final, cast

from powercut.scenario.settings import Parameters
from powercut.workload.port import Workload

WORKLOADS: Final = {
    "wal": "powercut.workload.wal.workload:WalWorkload",
    "program": "powercut.workload.program.workload:ProgramWorkload",
}
"""A callable for each kind, which takes the parameters of a cell."""


def workload_of(parameters: Parameters) -> Workload:
    """The workload of a cell."""
    module, _, name = WORKLOADS[parameters.workload.kind].partition(":")
    make = cast(Callable[[Parameters], Workload], getattr(import_module(module), name))
    return make(parameters)
