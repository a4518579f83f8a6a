# SPDX-License-Identifier: Apache-2.0
"""Which workload a cell has: the rows of powercut.scenario.workloads, loaded when used."""

from __future__ import annotations

from powercut.scenario.settings import Parameters
from powercut.scenario.workloads import WORKLOADS, load
from powercut.workload.port import AcksByWire, Workload


def workload_of(parameters: Parameters) -> Workload:
    """The workload of a cell."""
    made: Workload = load(WORKLOADS[parameters.workload.kind].workload)(parameters)
    return made


def is_recognised(parameters: Parameters) -> bool:
    """Whether the bytes of its workload are known in captured writes, so that exposure analysis
    sees each of them, and a log on the bare disk needs no other evidence."""
    return isinstance(workload_of(parameters), AcksByWire)
