# SPDX-License-Identifier: Apache-2.0
"""What a run of the WAL workload promised: records up to some LSN, and the writes with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from powercut.checkers.wal import check_log, wrapped_after_restart
from powercut.crash.claims import Claims
from powercut.crash.evidence import Evidence, gather
from powercut.model.history import History
from powercut.model.observation import Continuation, Observation
from powercut.model.timeline import Timeline
from powercut.model.units import NEVER
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.wal.layout import WalLayout
from powercut.workload.port import LaterClaims, StateClaims


@dataclass(frozen=True)
class WalPromises:
    """The claims of one run; its bytes are recognised in the captured writes."""

    evidence: Evidence

    @classmethod
    def of(
        cls, timeline: Timeline, history: History, run_id: bytes, layout: WalLayout
    ) -> WalPromises:
        """What `history` claims of the disk that `timeline` tells of."""
        return cls(gather(timeline, history, run_id, layout, deep=True))

    @property
    def requirements(self) -> Claims:
        return self.evidence.claims

    @property
    def acked(self) -> int:
        return self.evidence.history.acked

    @property
    def attempted(self) -> int:
        """Highest attempted LSN: what reached the disk was attempted, even if the cut swallowed
        the message.
        """
        return max(self.evidence.history.attempted, self.evidence.claims.attempted)

    @property
    def start_ns(self) -> int | None:
        attempts = self.evidence.history.attempt_ns
        return int(attempts[0]) if len(attempts) else None

    @property
    def gaps(self) -> tuple[str, ...]:
        error = self.evidence.history.error
        failed = f"the workload failed: {error}" if error else ""
        wrapped = wrapped_after_restart(self.evidence.history, self.evidence.layout, self.attempted)
        return tuple(why for why in (failed, wrapped) if why)

    def claims_at(self, instant: int) -> StateClaims:
        """The records that were acknowledged before `instant`."""
        claims = self.evidence.claims
        required = claims.required(instant)
        attempted = claims.attempted_before(instant)
        return StateClaims(instant, (required,) if required else (), attempted)

    def claims_received(self) -> StateClaims:
        """All records that were ever acknowledged, but for those given up since."""
        claims = self.evidence.claims
        first = claims.layout.oldest_required(claims.attempted)
        required = (LsnRange(first, claims.acked),) if first <= claims.acked else ()
        return StateClaims(int(NEVER), required, claims.attempted)

    def claims_after(self, later: Continuation) -> LaterClaims:
        if not later.acked:
            return LaterClaims((), later.attempted)
        return LaterClaims((LsnRange(later.first_lsn, later.acked),), later.attempted)

    def check(self, claims: StateClaims, observation: Observation) -> tuple[Finding, ...]:
        """The records of `claims`, and life after the recovery."""
        required = (*claims.required, *claims.later.promised)
        attempted = max(claims.attempted, claims.later.attempted)
        return check_state(required, attempted, observation, self.evidence.layout)


# Life after recovery: how the workload continues, and what must then be there.
#
# After a state has recovered, the workload appends and syncs a few more records of the same
# run, from the one after the last that came back.  Then the file system is unmounted, mounted
# again, and the log is read once more.
#
# 1. What was required of the state is required again, but for records that the new ones took
#    the place of in a log that wraps.
# 2. What was acknowledged after recovery is required as well.
# 3. Nothing may come back that was attempted neither before nor after.
# 4. A state whose recovery has already lost something is convicted: life after it is not
#    judged.
# 5. If the workload cannot go on, no acknowledged record is lost by that, and it may not be
#    held against a full log or disk.  Otherwise it is INCONCLUSIVE: a file system that mounts
#    and then refuses to be written is not one that has recovered, whatever it calls itself.


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
