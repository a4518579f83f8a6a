# SPDX-License-Identifier: Apache-2.0
"""What a run of the WAL workload promised: records up to some LSN, and the writes with them."""

from __future__ import annotations

from dataclasses import dataclass

from powercut.checkers.restarts import wrapped_after_restart
from powercut.crash.claims import Claims
from powercut.crash.evidence import Evidence, gather
from powercut.model.history import History
from powercut.model.observation import Continuation, Observation
from powercut.model.timeline import Timeline
from powercut.model.units import NEVER
from powercut.model.verdict import Finding, LsnRange
from powercut.wal.layout import WalLayout
from powercut.workload.port import LaterClaims, StateClaims
from powercut.workload.wal.check import check_state


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
        """A prefix of the records."""
        return self.evidence.claims

    @property
    def acked(self) -> int:
        """Highest acknowledged LSN."""
        return self.evidence.history.acked

    @property
    def attempted(self) -> int:
        """Highest attempted LSN: what reached the disk was attempted, even if the cut swallowed
        the message.
        """
        return max(self.evidence.history.attempted, self.evidence.claims.attempted)

    @property
    def start_ns(self) -> int | None:
        """The first attempt."""
        attempts = self.evidence.history.attempt_ns
        return int(attempts[0]) if len(attempts) else None

    @property
    def gaps(self) -> tuple[str, ...]:
        """What the workload says of itself."""
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
        """The records that it went on with."""
        if not later.acked:
            return LaterClaims((), later.attempted)
        return LaterClaims((LsnRange(later.first_lsn, later.acked),), later.attempted)

    def check(self, claims: StateClaims, observation: Observation) -> tuple[Finding, ...]:
        """The records of `claims`, and life after the recovery."""
        required = (*claims.required, *claims.later.promised)
        attempted = max(claims.attempted, claims.later.attempted)
        return check_state(required, attempted, observation, self.evidence.layout)
