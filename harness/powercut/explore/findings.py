# SPDX-License-Identifier: Apache-2.0
"""Adds up the findings of many crash states: by kind, with the first state of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from powercut.checkers.repetition import NOT_ASKED, Repeats
from powercut.crash.legality import tears_within
from powercut.crash.states import CrashState, StateSpace
from powercut.explore.confirmation import Heard, LastWord
from powercut.model.contract import ATOMIC_UNIT
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict, lsn_ranges
from powercut.store.exploration import ExplorationFinding, FoundState
from powercut.store.trial_result import LOSS_KINDS

EXAMPLES_MAX: Final = 8
"""Distinct findings of one kind of which the first state is kept."""

_CONFIRMED_MAX: Final = 3
"""Of these, in how many a loss is asked for once more until one bears it out."""

_MESSAGE_MAX: Final = 2000
_TEARS: Final = "torn"

NO_STATE: Final = CrashState(-1, ())
"""Stands for the state of a finding that is not about a single one."""

Save = Callable[[CrashState], str]
"""Keeps a state and returns its name."""


@dataclass
class _Kind:
    states: int = 0
    named: int = 0
    lsns: set[int] = field(default_factory=set)
    by_policy: Counter[str] = field(default_factory=Counter)
    torn_within: int = 0
    distinct: set[tuple[LsnRange, ...]] = field(default_factory=set)
    examples: list[tuple[CrashState, Finding]] = field(default_factory=list)


class FindingCollector:
    """Findings as they come in.

    `torn_within` tells a state that only a disk may leave that tears what other disks promise to
    write whole; None if all disks promise as little as this one.  `volatile` says how many writes
    were not durable at an instant.
    """

    def __init__(
        self,
        torn_within: Callable[[CrashState], bool] | None = None,
        volatile: Callable[[int], int] = lambda _: 0,
    ) -> None:
        self._torn_within = torn_within
        self._volatile = volatile
        self._kinds: dict[tuple[FindingKind, Verdict], _Kind] = {}
        self.lossy_states = 0
        self.repeats = NOT_ASKED
        self.doubtful = False
        """Whether no loss convicts; known once `findings` were asked for."""

    def add(
        self,
        policy: str,
        findings: Iterable[Finding],
        state: Callable[[], CrashState],
        *,
        named: bool = False,
        repeats: Repeats = NOT_ASKED,
    ) -> None:
        """Takes what was found in one state, which is only made if it is worth keeping.  One that
        was `named` is an example before all others: it may have been confirmed.  `repeats` says
        how often the state was asked again.
        """
        self.repeats += repeats
        lossy = False
        for finding in findings:
            lossy |= finding.verdict is Verdict.LOSSY
            kind = self._kinds.setdefault((finding.kind, finding.verdict), _Kind())
            kind.states += 1
            kind.by_policy[policy] += 1
            kind.torn_within += self._is_torn_within(policy, finding, state)
            if named:
                kind.examples.insert(kind.named, (state(), finding))
                kind.named += 1
            if finding.lsns in kind.distinct:
                continue
            kind.distinct.add(finding.lsns)
            for span in finding.lsns:
                kind.lsns.update(span)
            if not named and len(kind.examples) < EXAMPLES_MAX:
                kind.examples.append((state(), finding))
        self.lossy_states += lossy

    def _is_torn_within(
        self, policy: str, finding: Finding, state: Callable[[], CrashState]
    ) -> bool:
        # No other policy tears anything.
        if self._torn_within is None or policy != _TEARS or finding.verdict is not Verdict.LOSSY:
            return False
        return self._torn_within(state())

    def add_general(self, *findings: Finding) -> None:
        """Takes findings that are not about a single state."""
        for finding in findings:
            kind = self._kinds.setdefault((finding.kind, finding.verdict), _Kind())
            kind.examples.append((NO_STATE, finding))

    @property
    def kinds_of_loss(self) -> int:
        """How many kinds of loss there are; of each a state is confirmed."""
        return sum(verdict is Verdict.LOSSY for _, verdict in self._kinds)

    @property
    def lost(self) -> set[int]:
        """Every required record that did not come back in some state."""
        return {
            lsn
            for (kind, verdict), of_kind in self._kinds.items()
            if kind in LOSS_KINDS and verdict is Verdict.LOSSY
            for lsn in of_kind.lsns
        }

    def findings(self, save: Save, last: LastWord | None) -> tuple[ExplorationFinding, ...]:
        """All of them, the worst first.

        A loss that whoever has the `last` word bears out in none of its first states is
        INCONCLUSIVE.  So is every loss if the check contradicts itself, or misses something where
        nothing was lost: the reason is a finding then.
        """
        found_kinds = [
            self._finding(kind, verdict, of_kind, save, last)
            for (kind, verdict), of_kind in self._kinds.items()
        ]
        lossy = any(found.verdict is Verdict.LOSSY for found in found_kinds)
        found_kinds += [_doubt(why) for why in self._doubts(last if lossy else None)]
        self.doubtful = any(found.kind is FindingKind.CONTROL for found in found_kinds)
        if self.doubtful:
            found_kinds = [_acquitted(found) for found in found_kinds]
        return tuple(sorted(found_kinds, key=lambda one: (-one.verdict, -one.states)))

    def _doubts(self, last: LastWord | None) -> Iterator[str]:
        known = (FindingKind.CONTROL, Verdict.INCONCLUSIVE) in self._kinds
        if last is not None and not known and (why := last.doubt()):
            yield why
        if why := self.repeats.doubt:
            yield why

    def _finding(
        self,
        kind: FindingKind,
        verdict: Verdict,
        of_kind: _Kind,
        save: Save,
        last: LastWord | None,
    ) -> ExplorationFinding:
        examples = []
        asked = last if verdict is Verdict.LOSSY else None
        borne_out = asked is None
        for number, (state, finding) in enumerate(of_kind.examples):
            told = Heard("not tried", "")
            if asked is not None and not borne_out and number < _CONFIRMED_MAX:
                told = asked.confirm(state, finding)
                self.repeats += told.repeats
                borne_out = told.confirmed == "yes"
            general = state.instant < 0
            volatile = 0 if general else self._volatile(state.instant)
            examples.append(
                FoundState(
                    id="" if general else save(state),
                    policy=state.policy,
                    instant=state.instant,
                    missing=max(0, volatile - len(state.survivors)),
                    volatile=volatile,
                    lsns=finding.lsns,
                    message=finding.message[:_MESSAGE_MAX],
                    difference=finding.difference,
                    confirmed=told.confirmed,
                    confirmation=told.said[:_MESSAGE_MAX],
                )
            )
        # What was borne out speaks for its kind.
        examples.sort(key=lambda one: one.confirmed != "yes")
        return ExplorationFinding(
            kind=kind,
            verdict=verdict if borne_out else Verdict.INCONCLUSIVE,
            states=of_kind.states,
            distinct=max(len(of_kind.distinct), len(examples)),
            lsns=lsn_ranges(of_kind.lsns),
            by_policy=dict(of_kind.by_policy),
            torn_within=of_kind.torn_within,
            examples=tuple(examples),
        )


def _acquitted(found: ExplorationFinding) -> ExplorationFinding:
    lossy = found.verdict is Verdict.LOSSY
    return found.model_copy(update={"verdict": Verdict.INCONCLUSIVE}) if lossy else found


def _doubt(why: str) -> ExplorationFinding:
    found = FoundState(id="", policy="", instant=-1, missing=0, volatile=0, lsns=(), message=why)
    return ExplorationFinding(
        kind=FindingKind.CONTROL,
        verdict=Verdict.INCONCLUSIVE,
        states=0,
        distinct=1,
        lsns=(),
        by_policy={},
        examples=(found,),
    )


def torn_within(space: StateSpace) -> Callable[[CrashState], bool] | None:
    """Tells states that a disk cannot leave which promises what disks do today."""
    if space.unit >= ATOMIC_UNIT:
        return None
    return partial(tears_within, space, block=ATOMIC_UNIT)
