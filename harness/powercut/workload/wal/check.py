# SPDX-License-Identifier: Apache-2.0
"""Life after recovery: how the workload continues, and what must then be there.

After a state has recovered, the workload appends and syncs a few more records of the same
run, from the one after the last that came back.  Then the file system is unmounted, mounted
again, and the log is read once more.

1. What was required of the state is required again, but for records that the new ones took
   the place of in a log that wraps.
2. What was acknowledged after recovery is required as well.
3. Nothing may come back that was attempted neither before nor after.
4. A state whose recovery has already lost something is convicted: life after it is not
   judged.
5. If the workload cannot go on, no acknowledged record is lost by that, and it may not be
   held against a full log or disk.  Otherwise it is INCONCLUSIVE: a file system that mounts
   and then refuses to be written is not one that has recovered, whatever it calls itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from powercut.checkers.wal import check_log
from powercut.model.observation import Continuation, Observation
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.wal.layout import WalLayout


def check_state(
    required: Sequence[LsnRange], attempted: int, observation: Observation, layout: WalLayout
) -> tuple[Finding, ...]:
    """The findings on one recovered state and on life after it.

    `required` and `attempted` are the claims at the state's instant.
    """
    findings = _check(required, attempted, observation, layout)
    later = observation.later
    if later is None or any(finding.verdict is Verdict.LOSSY for finding in findings):
        return tuple(findings)
    told = {_key(finding) for finding in findings}
    new = [LsnRange(later.first_lsn, later.acked)] if later.acked >= later.first_lsn else []
    attempted = max(attempted, later.attempted)
    for finding in _check([*required, *new], attempted, later.observation, layout):
        if _key(finding) not in told:
            findings.append(_said_later(finding, later))
    if later.failure and not later.no_room and later.observation.recovered:
        findings.append(
            Finding(
                FindingKind.NOT_RECOVERED,
                Verdict.INCONCLUSIVE,
                f"the system came back, but could not go on: {later.failure}",
            )
        )
    return tuple(findings)


def _check(
    required: Sequence[LsnRange], attempted: int, observation: Observation, layout: WalLayout
) -> list[Finding]:
    """One reading against several ranges, between which are records that were not promised."""
    oldest = layout.oldest_required(attempted)
    spans = [LsnRange(max(s.first, oldest), s.last) for s in required if s.last >= oldest]
    asked: Sequence[LsnRange | None] = spans or [None]
    findings: dict[tuple[object, ...], Finding] = {}
    for span in asked:
        for finding in check_log(span, attempted, observation, layout):
            findings.setdefault(_key(finding), finding)
    return list(findings.values())


def _key(finding: Finding) -> tuple[object, ...]:
    return finding.kind, finding.verdict, finding.lsns, str(finding.detail.get("slots"))


def _said_later(finding: Finding, later: Continuation) -> Finding:
    went_on = f"after recovery the workload went on with record {later.first_lsn}"
    acked = f", acknowledged to {later.acked}" if later.acked else ""
    return replace(finding, message=f"{went_on}{acked}; mounted again: {finding.message}")
