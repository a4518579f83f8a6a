# SPDX-License-Identifier: Apache-2.0
"""What a run of a program promised: a set of operations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from powercut.model.observation import Continuation, Observation
from powercut.model.operations import OperationHistory, Packet, Sighting
from powercut.model.units import NEVER
from powercut.model.verdict import Difference, Finding, FindingKind, LsnRange, Verdict, lsn_ranges
from powercut.workload.port import LaterClaims, StateClaims
from powercut.workload.program.check import check_operations, difference_of
from powercut.workload.program.claims import history_of, sighting_of

_LATER: Final = "life after recovery"
_NAMED_MAX: Final = 4


@dataclass(frozen=True)
class ProgramPromises:
    """The claims of one run."""

    requirements: OperationHistory

    @property
    def acked(self) -> int:
        return len(self.requirements.acked)

    @property
    def attempted(self) -> int:
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
        promised, tried = _operations(claims.later.promised), _operations(claims.later.tried)
        findings = check_operations(
            self.requirements, claims.instant, seen, promised=promised, tried=tried
        )
        if observation.later is None or any(one.verdict is Verdict.LOSSY for one in findings):
            return tuple(findings)
        later = self._check_later(claims, seen, observation.later)
        return (*findings, *later)

    def difference(self, claims: StateClaims, observation: Observation) -> Difference:
        """What its check found, against the claims: also where nothing is wrong with it."""
        history, later = self.requirements, claims.later
        required = history.acked_before(claims.instant) | _operations(later.promised)
        attempted = history.attempted_before(claims.instant) | _operations(later.tried)
        return difference_of(required, attempted, sighting_of(observation))

    def of_every_ack(self) -> ProgramPromises:
        """As a control is judged: whether the check misses what is lost, promised or not."""
        return replace(self, requirements=replace(self.requirements, keeps="every"))

    def claims_after(self, later: Continuation) -> LaterClaims:
        """The operations that it tried and acknowledged, of those that it may try."""
        went_on = history_of([Packet(0, later.lines)])
        return LaterClaims(lsn_ranges(went_on.acked.tolist()), 0, lsn_ranges(went_on.names))

    def _less(self, seen: Sighting) -> ProgramPromises:
        """Without what was gone already, which it had not promised to keep."""
        history = self.requirements
        if history.keeps == "every":
            return self
        gone = history.names - seen.those_present(history.names)
        return replace(self, requirements=history.without_acks(gone))

    def _check_later(
        self, claims: StateClaims, before: Sighting, later: Continuation
    ) -> Iterator[Finding]:
        """Life after recovery: the program went on and was killed, and its check looked again.

        What was required before is still required, and with it whatever it acknowledged now.
        That it could not go on is no loss; nor is what it says of itself then.
        """
        went_on = history_of([Packet(0, later.lines)])
        again = sorted(before.those_present(went_on.names))
        trouble = [f"the program tries operation {one} again, which is there" for one in again[:1]]
        trouble += went_on.trouble
        if later.failure and not later.no_room:
            trouble.append(f"the store came back, but the program could not go on: {later.failure}")
        yield from (Finding.unknown(f"{_LATER}: {why}") for why in trouble)
        if again or went_on.trouble:
            return  # what it claims cannot be believed
        after = replace(claims, later=claims.later + self.claims_after(later))
        for finding in self._less(before).check(after, later.observation):
            message = f"{_LATER}{_told(went_on)}: {finding.message}"
            yield replace(finding, message=message)


def _operations(spans: tuple[LsnRange, ...]) -> frozenset[int]:
    return frozenset(number for span in spans for number in range(span.first, span.last + 1))


def _told(went_on: OperationHistory) -> str:
    if not len(went_on.acked):
        return ", which acknowledged nothing"
    spans = lsn_ranges(went_on.acked.tolist())
    return f", which acknowledged {', '.join(map(str, spans[:_NAMED_MAX]))}"
