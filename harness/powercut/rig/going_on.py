# SPDX-License-Identifier: Apache-2.0
"""Life after recovery, as a plan: the workload goes on, and what is there is read again."""

from __future__ import annotations

from dataclasses import replace

from powercut.model.errors import UsageError
from powercut.recover.plan import RecoveryPlan
from powercut.scenario.settings import Parameters
from powercut.workload.port import Continues, Run
from powercut.workload.table import workload_of


def going_on(
    plan: RecoveryPlan,
    parameters: Parameters,
    run_id: bytes,
    records: int,
    *,
    again: bool = False,
    seconds: float | None = None,
) -> RecoveryPlan:
    """`plan`, with the workload going on by `records` after recovery; 0 for not at all.

    With `again` the disk is recovered once more whatever the records, by something else than
    this plan: readers must know that, where they can be told.  `seconds` is how long it may go on,
    by default a share of what a recovery may take.
    Raises UsageError for a workload that cannot go on.
    """
    if not records and not again:
        return plan
    workload = workload_of(parameters)
    if not isinstance(workload, Continues):
        raise UsageError(
            f"a workload of kind {parameters.workload.kind} cannot go on after a recovery",
            hint="leave out --after, and `explore.after` in the scenario",
        )
    how = workload.continuation(Run(run_id), records)
    if plan.host is not None and how.environment:
        told = replace(plan.host, environment=(*plan.host.environment, *how.environment))
        plan = replace(plan, host=told)
    if plan.root is not None and how.environment:
        root = replace(plan.root, environment=(*plan.root.environment, *how.environment))
        plan = replace(plan, root=root)
    if not records:
        return plan
    return plan.going_on(how.command, records, how.seconds if seconds is None else seconds)
