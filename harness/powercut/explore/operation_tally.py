# SPDX-License-Identifier: Apache-2.0
"""What the states of operations that were looked at come to: counts, findings, a verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from powercut.checkers.repetition import loses
from powercut.crash.states import CrashState, StateSpace
from powercut.model.log2 import log2_sum
from powercut.model.verdict import Finding, FindingKind, Verdict
from powercut.store.folder import StateFinding

_KINDS_MAX: Final = 8
_SECOND: Final = "second cut"


def no_name(state: CrashState) -> str:
    """None: the state is kept nowhere."""
    del state
    return ""


@dataclass
class OperationTally:
    """What has been found so far.  Times are told from `from_ns`; `name` is called once for each
    state that is told.
    """

    space: StateSpace
    from_ns: int
    name: Callable[[CrashState], str] = no_name
    states: int = 0
    lossy: int = 0
    by_policy: Counter[str] = field(default_factory=Counter)
    second: int = 0
    second_lossy: int = 0
    _legal: dict[int, float] = field(default_factory=dict)
    _findings: list[StateFinding] = field(default_factory=list)
    _kinds: set[tuple[FindingKind, str]] = field(default_factory=set)

    def add(self, state: CrashState, findings: Sequence[Finding]) -> None:
        """Counts a state; keeps the first finding of each kind and policy."""
        self.states += 1
        self.by_policy[state.policy] += 1
        if state.instant not in self._legal:
            self._legal[state.instant] = self.space.legal_log2(state.instant)
        if loses(findings):
            self.lossy += 1
        for finding in findings:
            key = (finding.kind, state.policy)
            if key not in self._kinds and len(self._kinds) < _KINDS_MAX:
                self._kinds.add(key)
                self._findings.append(self._told(state, finding))

    def add_second(self, state: CrashState, findings: Sequence[Finding]) -> None:
        """Counts a state that a cut during the recovery of `state` may have left; it has no name,
        since what it rests on is not kept.
        """
        self.second += 1
        if loses(findings):
            self.second_lossy += 1
        for finding in findings:
            key = (finding.kind, _SECOND)
            if key not in self._kinds:
                self._kinds.add(key)
                self._findings.append(self._told(state, finding).model_copy(update={"state": ""}))

    def _told(self, state: CrashState, finding: Finding) -> StateFinding:
        volatile = len(self.space.volatile(state.instant))
        return StateFinding(
            kind=finding.kind.value,
            verdict=finding.verdict.name,
            message=finding.message,
            operations=tuple((span.first, span.last) for span in finding.lsns),
            policy=state.policy,
            at_ms=round((state.instant - self.from_ns) / 1e6, 3),
            missing_writes=volatile - len(state.survivors),
            volatile_writes=volatile,
            state=self.name(state),
        )

    @property
    def instants(self) -> int:
        """At how many instants the states are."""
        return len(self._legal)

    @property
    def legal_log2(self) -> float:
        """Of the number of legal states at these instants."""
        return round(log2_sum(list(self._legal.values())), 1)

    @property
    def findings(self) -> tuple[StateFinding, ...]:
        """The losses first."""
        return tuple(sorted(self._findings, key=lambda one: one.verdict != Verdict.LOSSY.name))
