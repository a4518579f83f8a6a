# SPDX-License-Identifier: Apache-2.0
"""What a run of the WAL workload promised: records up to some LSN, and the writes with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from powercut.crash.claims import Claims
from powercut.crash.evidence import Evidence, gather
from powercut.model.history import History
from powercut.model.observation import Observation
from powercut.model.timeline import Timeline
from powercut.model.verdict import Finding, LsnRange
from powercut.model.wal import WalLayout
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
        return (f"the workload failed: {error}",) if error else ()

    def check(
        self,
        instant: int,
        observation: Observation,
        *,
        also: Sequence[LsnRange] = (),
        attempted: int = 0,
    ) -> tuple[Finding, ...]:
        """The records before `instant`, those in `also`, and life after the recovery."""
        claims = self.evidence.claims
        required = claims.required(instant)
        asked = ((required,) if required else ()) + tuple(also)
        tried = max(claims.attempted_before(instant), attempted)
        return check_state(asked, tried, observation, self.evidence.layout)
