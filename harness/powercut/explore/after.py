# SPDX-License-Identifier: Apache-2.0
"""Life after recovery: how the workload goes on (what must then be there: its promises say)."""

from __future__ import annotations

from powercut.model.errors import UsageError
from powercut.recover.plan import RecoveryPlan
from powercut.scenario.settings import Parameters
from powercut.workload.port import Continues, Run
from powercut.workload.table import workload_of


def going_on(
    plan: RecoveryPlan, parameters: Parameters, run_id: bytes, records: int
) -> RecoveryPlan:
    """`plan`, with the workload going on by `records` after recovery; 0 for not at all.

    Raises UsageError for a workload that cannot go on.
    """
    if not records:
        return plan
    workload = workload_of(parameters)
    if not isinstance(workload, Continues):
        raise UsageError(
            f"a workload of kind {parameters.workload.kind} cannot go on after a recovery",
            hint="leave out --after, and `explore.after` in the scenario",
        )
    return plan.going_on(workload.continuation(Run(run_id), records), records)
