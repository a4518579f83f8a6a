# SPDX-License-Identifier: Apache-2.0
"""The table of workloads, and the only list of them; powercut.workload.table loads one.

A row says where its settings are, which make the union of `workload` in scenarios, where its code
is, and what follows for all that only read about it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final


@dataclass(frozen=True)
class WorkloadRow:
    """A kind of workload; places are written `module:name`.

    `settings`: a class derived from settings_base's `OfWorkload`, whose `kind` is the row's name.
    `workload`: a callable that takes the parameters of a cell.  `refusals`: rules about a cell,
    each of which takes its parameters and yields (dotted key, reason); the first is asked before
    those of machine and cut.
    """

    settings: str
    workload: str
    refusals: tuple[str, ...] = ()


WORKLOADS: Final[dict[str, WorkloadRow]] = {
    "wal": WorkloadRow(
        settings="powercut.scenario.settings_wal:WalSettings",
        workload="powercut.workload.wal.workload:WalWorkload",
        refusals=(
            "powercut.scenario.refusal_wal:refusals_of_wal",
            "powercut.scenario.refusal_wal:refusals_of_wal_in_cuts",
        ),
    ),
    "program": WorkloadRow(
        settings="powercut.scenario.settings_program:ProgramSettings",
        workload="powercut.workload.program.workload:ProgramWorkload",
        refusals=("powercut.scenario.refusal_program:refusals_of_program",),
    ),
    "cluster": WorkloadRow(
        settings="powercut.scenario.settings_program:ClusterSettings",
        workload="powercut.workload.program.workload:ProgramWorkload",
        refusals=(
            "powercut.scenario.refusal_program:refusals_of_program",
            "powercut.scenario.refusal_program:refusals_of_cluster",
        ),
    ),
}
"""The rows by the name that `workload.kind` of a scenario gives, the usual one first."""

USUAL: Final = "wal"
"""The kind of a workload that does not say which it is."""


def load(place: str) -> Callable[..., Any]:
    """What a row means by `place`."""
    module, _, name = place.partition(":")
    loaded: Callable[..., Any] = vars(import_module(module))[name]
    return loaded
