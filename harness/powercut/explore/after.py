# SPDX-License-Identifier: Apache-2.0
"""Life after recovery: how the workload goes on (what must then be there: its promises say)."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Final

from powercut.explore.request import ExploreRequest
from powercut.model.verdict import Finding, FindingKind, Verdict
from powercut.recording.open_recording import Recording
from powercut.recover.order import EngineOrder
from powercut.recover.uml.kernel import UmlKernel
from powercut.rig.engines import open_engine, start_engine
from powercut.rig.going_on import going_on
from powercut.workload.port import AcksByLines
from powercut.workload.table import workload_of

_START_S: Final = 180.0


def what_can_go_on(
    recording: Recording, kernel: UmlKernel | None, wanted: ExploreRequest
) -> tuple[ExploreRequest, tuple[Finding, ...]]:
    """What is `wanted`, without life after recovery and second cuts if these would say nothing.

    Anybody's program must first show that it can live on where nothing was lost.  Raises HostError.
    """
    lines = isinstance(workload_of(recording.system.parameters), AcksByLines)
    if not lines or not (wanted.after or wanted.depth):
        return wanted, ()
    problem = _problem_of_going_on(recording, kernel, wanted.after)
    if not problem:
        return wanted, ()
    message = (
        "life after recovery and second cuts were not looked at: on the disk on which only `setup` "
        f"has run, where nothing is lost, {problem}"
    )
    finding = Finding(FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, message)
    return replace(wanted, after=0, depth=0), (finding,)


def _problem_of_going_on(recording: Recording, kernel: UmlKernel | None, records: int) -> str:
    """What is found where the program is checked, goes on, is killed and checked again."""
    assert recording.plan is not None
    parameters = recording.system.parameters
    plan = going_on(recording.plan, parameters, recording.run_id, records, again=True)
    if not records:
        plan = plan.going_on((), 0)
    order = EngineOrder(recording.base, plan, parameters, kernel)
    with ExitStack() as stack:
        engine = open_engine("uml" if plan.root is None else "guest", order)
        start_engine(engine, stack, timeout_s=_START_S)
        seen = engine.recover([], timeout_s=workload_of(parameters).recovery_s)
    claims = recording.promises.claims_at(0)
    return "; ".join(finding.message for finding in recording.promises.check(claims, seen))
