# SPDX-License-Identifier: Apache-2.0
"""What a run of a program promised: a set of operations."""

from __future__ import annotations

from dataclasses import dataclass

from powercut.model.observation import Observation
from powercut.model.operations import OperationHistory
from powercut.model.units import NEVER
from powercut.model.verdict import Finding, FindingKind, Verdict
from powercut.workload.port import StateClaims
from powercut.workload.program.check import check_operations
from powercut.workload.program.claims import sighting_of


@dataclass(frozen=True)
class ProgramPromises:
    """The claims of one run."""

    requirements: OperationHistory

    @property
    def acked(self) -> int:
        """How many operations were acknowledged."""
        return len(self.requirements.acked)

    @property
    def attempted(self) -> int:
        """How many were tried."""
        return len(self.requirements.attempted)

    @property
    def start_ns(self) -> int | None:
        """When it said that it was ready, else when it tried something."""
        attempts = self.requirements.attempt_ns
        first = int(attempts[0]) if len(attempts) else None
        return first if self.requirements.ready_ns is None else self.requirements.ready_ns

    @property
    def gaps(self) -> tuple[str, ...]:
        """What it says of itself, and claims of its that cannot be."""
        return self.requirements.trouble

    def claims_at(self, instant: int) -> StateClaims:
        """The operations before `instant`, counted."""
        required = self.requirements.required(instant)
        attempted = len(self.requirements.attempted_before(instant))
        return StateClaims(instant, (required,) if required else (), attempted)

    def claims_received(self) -> StateClaims:
        """All of them: its lines carry the instant at which they were written."""
        return self.claims_at(int(NEVER))

    def check(self, claims: StateClaims, observation: Observation) -> tuple[Finding, ...]:
        """The operations before the instant of `claims`."""
        if not observation.recovered and observation.complete:
            message = f"the file system does not mount: {observation.failure}"
            return (Finding(FindingKind.NOT_RECOVERED, Verdict.LOSSY, message),)
        seen = sighting_of(observation)
        return tuple(check_operations(self.requirements, claims.instant, seen))
