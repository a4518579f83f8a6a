# SPDX-License-Identifier: Apache-2.0
"""The crash states of a captured folder: made, checked by the user's command, and judged.

States come in the one order (powercut.crash.order), first what a cut at the end leaves at
least, and with everything that was issued.  Those before the program was `ready`, or without that
word before its first attempt, are not looked at: nothing was promised.

The control is the same recording on a host that ignores every sync: of all that was
acknowledged the check must miss something there.  No SAFE without it.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from powercut.checkers.repetition import loses
from powercut.crash.explore import InstantKind
from powercut.crash.folder_rows import Promise
from powercut.crash.states import CrashState
from powercut.explore.folder_depth import RecordCheck, SecondCuts
from powercut.explore.folder_judge import Answer, Check, FolderJudge
from powercut.explore.operation_tally import OperationTally
from powercut.explore.request import Budget
from powercut.explore.state_order import StateOrder
from powercut.explore.tally import acks_of, groups_of
from powercut.model.positive import PositiveControl
from powercut.model.reads import CheckReads
from powercut.model.timeline import RequestKind
from powercut.model.verdict import Finding
from powercut.recording.folder import CaptureRecording
from powercut.recording.folder_state import save_state, state_name
from powercut.store.exploration import StateGroups
from powercut.store.folder import CaptureStates, FolderSeen
from powercut.store.states_recovered import StatesAtAcks
from powercut.workload.program.check import doubts_before
from powercut.workload.program.claims import sighting_of

_PER_RECORD: Final = 16
"""Of so many states that a budget has, the check of one is recorded, and cut again."""

_OF_CUT: Final = 2
"""States of the cut itself, which come first."""

Listener = Callable[[int, int], None]
"""Hears how many states were checked, and how many of them lose something."""


@dataclass(frozen=True)
class Limits:
    """How many states or how long, what a check may take (seconds), and the root of chance.

    With `policies` or `at` (instants of these kinds) states are drawn by these, after the states of
    the cut.  `jobs` checks run at a time.  `depth` is how many cuts may follow each other in
    checks.
    """

    budget: Budget
    state_s: float
    seed: int
    policies: tuple[str, ...] = ()
    at: tuple[InstantKind, ...] = ()
    jobs: int = 1
    depth: int = 0


class FolderExplorer:
    """Looks at the crash states of one recording under one promise."""

    def __init__(
        self,
        recording: CaptureRecording,
        promise: Promise,
        check: Check,
        scratch: Path,
        listener: Listener = lambda _states, _lossy: None,
        *,
        keep: bool = False,
        record: RecordCheck | None = None,
    ) -> None:
        """`record` is for second cuts.  With `keep` the states that its findings tell of are kept
        beside the recording.
        """
        self._recording = recording
        self._promise = promise
        self._space = recording.space(promise)
        self._check = check
        self._scratch = scratch
        self._listener = listener
        self._from_ns = recording.start_ns
        name = (
            partial(save_state, recording.directory, promise=promise)
            if keep
            else partial(state_name, promise=promise)
        )
        self._tally = OperationTally(self._space, self._from_ns, name=name)
        self._groups: StateGroups | None = None
        self._positive: PositiveControl | None = None
        self._acks: StatesAtAcks | None = None
        self._reads: CheckReads | None = None
        self._record = record
        self._recorded = 0
        self._sound: list[CrashState] = []
        self._asked: deque[tuple[CrashState, Answer]] = deque()

    def explore(self, limits: Limits) -> FolderSeen:
        """Looks at states until the budget is used up; at none of a recording that its host has
        damaged, or whose check cannot be believed.  Raises HostError.
        """
        start = time.monotonic()
        doubts: tuple[str, ...] = ()
        control, exhausted, distinct = None, False, 0
        if not self._recording.doubts:
            with FolderJudge(
                self._recording, self._promise, self._check, self._scratch, jobs=limits.jobs
            ) as judge:
                doubts = self._doubts_of_check(judge)
                if not doubts and self._check_sees(judge):
                    control = self._look_at_control(judge)
                    exhausted = self._explore(judge, limits)
                    self._cut_again(judge, limits)
                distinct = judge.distinct
        states = self._states(limits, distinct, time.monotonic() - start)
        return FolderSeen(states, doubts, control, exhausted)

    def _explore(self, judge: FolderJudge, limits: Limits) -> bool:
        """Whether all states were seen."""
        space, cut = self._space, self._recording.record.cut_ns
        at_cut = (
            CrashState(cut, (), policy="durable-only"),
            CrashState(cut, tuple(space.volatile(cut).tolist()), policy="everything-issued"),
        )
        # No event is later than the cut, and after it nothing happens.
        order = StateOrder(
            space,
            at_cut,
            seed=limits.seed,
            between=(self._from_ns, cut),
            policies=limits.policies,
            at=limits.at,
        )

        def look(state: CrashState) -> None:
            state = space.legal(state)
            self._asked.append((state, judge.ask(state)))
            while len(self._asked) >= limits.jobs:
                self._settle()

        exhausted = order.walk(limits.budget, look)
        drawn = order.coverage()
        self._groups, self._acks = groups_of(drawn), acks_of(drawn)
        while self._asked:
            self._settle()
        return exhausted

    def _settle(self) -> None:
        """Counts the state that was asked for first."""
        state, answer = self._asked.popleft()
        findings = answer()
        self._tally.add(state, findings)
        if not loses(findings):
            self._sound.append(state)
        self._listener(self._tally.states, self._tally.lossy)

    def _cut_again(self, judge: FolderJudge, limits: Limits) -> None:
        """Cuts the checks of some states: first of those of the cut, then as the seed has it."""
        if not limits.depth or self._record is None:
            return
        start, budget = time.monotonic(), limits.budget
        cuts = SecondCuts(judge, self._promise, self._record, self._scratch, seed=limits.seed)
        first, others = self._sound[:_OF_CUT], self._sound[_OF_CUT:]
        random.Random(limits.seed).shuffle(others)
        many = len(self._sound) if budget.states is None else max(2, budget.states // _PER_RECORD)
        for state in [*first, *others][:many]:
            if budget.seconds is not None and time.monotonic() - start > budget.seconds:
                break
            for second in cuts.follow(state, limits.depth):
                told = [
                    replace(one, message=f"after a cut {second.what}: {one.message}")
                    for one in second.findings
                ]
                self._tally.add_second(state, told)
        self._recorded = cuts.recorded

    # --- what it rests on ---------------------------------------------------------------

    def _doubts_of_check(self, judge: FolderJudge) -> tuple[str, ...]:
        """What is wrong with what the check says of the folder as the program found it."""
        start = CrashState(self._from_ns, tuple(self._space.volatile(self._from_ns).tolist()))
        seen = sighting_of(judge.observe(self._space, start))
        where, of = "in the folder before any was tried", "the folder at first"
        return tuple(doubts_before(seen, where=where, of=of))

    def _check_sees(self, judge: FolderJudge) -> bool:
        """Whether the check finds every ack where nothing is lost."""
        self._positive = judge.positive()
        self._reads = judge.reads
        return self._positive.passed

    def _look_at_control(self, judge: FolderJudge) -> tuple[Finding, ...]:
        """What is lost on a host that ignores every sync."""
        cut = self._recording.record.cut_ns
        space = self._recording.space(self._promise, lying=True)
        state = CrashState(cut, ())
        return tuple(judge.findings(state, judge.observe(space, state)))

    def _states(self, limits: Limits, distinct: int, seconds: float) -> CaptureStates:
        tally, recording = self._tally, self._recording
        rows = [row for row in self._space.rows if row.request.submitted_ns > self._from_ns]
        return CaptureStates(
            promise="posix" if self._promise is Promise.POSIX else "journal",
            attempted=len(recording.history.attempted),
            acknowledged=len(recording.history.acked),
            run_s=round((recording.record.cut_ns - self._from_ns) / 1e9, 3),
            writes=sum(row.kind is not RequestKind.FLUSH and row.change is None for row in rows),
            syncs=sum(row.kind is RequestKind.FLUSH for row in rows),
            changes=sum(row.change is not None for row in rows),
            states=tally.states,
            distinct=distinct,
            lossy_states=tally.lossy,
            by_policy=dict(tally.by_policy),
            instants=tally.instants,
            legal_log2=tally.legal_log2,
            seconds=round(seconds, 2),
            budget=str(limits.budget),
            seed=limits.seed,
            state_s=limits.state_s,
            findings=tally.findings,
            groups=self._groups,
            at_acks=self._acks,
            positive=self._positive,
            reads=self._reads,
            policies=limits.policies,
            at=tuple(kind.value for kind in limits.at),
            depth=limits.depth,
            recorded_checks=self._recorded,
            second_states=tally.second,
            second_lossy=tally.second_lossy,
        )
