# SPDX-License-Identifier: Apache-2.0
"""The crash states of a captured folder: made, checked by the user's command, and judged.

States come in this order, so that a small budget sees most: what a cut at the end leaves at
least, and with everything that was issued; at acks, spread over the run, nothing but what is
durable, up to half of the budget; then all policies at all instants.  Those before the program was
`ready`, or without that word before its first attempt, are not looked at: nothing was promised.

States that look the same are checked once.  One that loses something is made and checked a second
time, and counts only if the check says the same again.

The control is the same recording on a host that ignores every sync: of all that was
acknowledged the check must miss something there.  No SAFE without it.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from powercut.crash.explore import Exploration, InstantKind, events, sample
from powercut.crash.folder import FolderSpace
from powercut.crash.folder_rows import Promise
from powercut.crash.states import CrashState
from powercut.explore.request import Budget
from powercut.model.log2 import log2_sum
from powercut.model.observation import Observation
from powercut.model.timeline import RequestKind
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.recording.folder import CaptureRecording, build_tree, fingerprint
from powercut.store.folder import CaptureResult
from powercut.store.program import ProgramFinding
from powercut.workload.program.check import check_operations
from powercut.workload.program.claims import sighting_of

OPERATIONS_MIN: Final = 10
STATES_MIN: Final = 32
_FIRST_INSTANTS: Final = 256
_PER_POLICY: Final = 1024
_A_FEW: Final = 4
_AT_ONCE: Final = 8
_KINDS_MAX: Final = 8
_NOTICED: Final = (FindingKind.LOST, FindingKind.CORRUPT)

Listener = Callable[[int, int], None]
"""Hears how many states were checked, and how many of them lose something."""


class Check(Protocol):
    """Says what it finds in a folder that a cut may have left."""

    def __call__(self, state: Path) -> Observation:
        """Raises HostError if nothing can be said."""


@dataclass(frozen=True)
class Limits:
    """How many states or how long, what a check may take (seconds), and the root of chance."""

    budget: Budget
    state_s: float
    seed: int


@dataclass
class _Tally:
    states: int = 0
    lossy: int = 0
    by_policy: Counter[str] = field(default_factory=Counter)
    legal: dict[int, float] = field(default_factory=dict)
    kinds: set[tuple[FindingKind, str]] = field(default_factory=set)
    findings: list[ProgramFinding] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    exhausted: bool = False


class FolderExplorer:
    """Judges one recording under one promise."""

    def __init__(
        self,
        recording: CaptureRecording,
        promise: Promise,
        check: Check,
        scratch: Path,
        listener: Listener = lambda _states, _lossy: None,
    ) -> None:
        self._recording = recording
        self._promise = promise
        self._space = recording.space(promise)
        self._check = check
        self._scratch = scratch
        self._listener = listener
        self._known: dict[bytes, Observation] = {}
        self._tally = _Tally()
        history = recording.history
        begin = int(recording.folder.begin_ns)
        first = int(history.attempt_ns[0]) if len(history.attempt_ns) else begin
        self._from_ns = first if history.ready_ns is None else history.ready_ns

    def judge(self, limits: Limits) -> CaptureResult:
        """Looks at states until the budget is used up.  Raises HostError."""
        start = time.monotonic()
        tally, history = self._tally, self._recording.history
        tally.reasons += self._recording.gaps
        control = ""
        if not self._recording.doubts:
            if len(history.acked) < OPERATIONS_MIN:
                tally.reasons.append(
                    f"{len(history.acked)} operations were acknowledged, and fewer than "
                    f"{OPERATIONS_MIN} prove nothing"
                )
            if self._check_is_believable():
                control = self._look_at_control()
                self._explore(limits)
            if tally.states < STATES_MIN and not tally.lossy and not tally.exhausted:
                tally.reasons.append(f"only {tally.states} states were looked at")
        return self._result(limits, control, time.monotonic() - start)

    # --- which states ---------------------------------------------------------------

    def _explore(self, limits: Limits) -> None:
        start, budget = time.monotonic(), limits.budget
        states = ((self._first_states(limits), 0.5), (self._all_states(limits.seed), 1.0))
        for some, share in states:
            for state in some:
                if budget.seconds is not None:
                    spent = time.monotonic() - start > share * budget.seconds
                else:
                    spent = self._tally.states >= share * (budget.states or 0)
                if spent:
                    break
                self._look(self._space.legal(state))
                self._listener(self._tally.states, self._tally.lossy)
            else:
                self._tally.exhausted = share == 1.0

    def _first_states(self, limits: Limits) -> Iterator[CrashState]:
        space, cut = self._space, self._recording.record.cut_ns
        yield CrashState(cut, (), policy="durable-only")
        yield CrashState(cut, tuple(space.volatile(cut).tolist()), policy="everything-issued")
        budget = limits.budget.states
        count = _FIRST_INSTANTS if budget is None else max(1, budget // 2)
        acks = sample(self._after_start(events(space, [InstantKind.ACK])), count, limits.seed)
        acks = np.random.default_rng(limits.seed).permutation(acks)
        yield from Exploration(space, acks, ("durable-only",), seed=limits.seed)

    def _all_states(self, seed: int) -> Iterator[CrashState]:
        """All policies at a few instants, then at the next few, in random order.

        Those at which nothing is volatile have one state, which comes with the acks.
        """
        space = self._space
        instants = self._after_start(events(space, list(InstantKind)))
        order = np.random.default_rng(seed + 1).permutation(instants)
        choice = order[[bool(len(space.volatile(int(one)))) for one in order]]
        for per_policy in (_A_FEW, _PER_POLICY):
            for begin in range(0, len(choice), _AT_ONCE):
                chosen = choice[begin : begin + _AT_ONCE]
                yield from Exploration(space, chosen, seed=seed + 1, per_policy=per_policy)
        yield from Exploration(space, instants, seed=seed + 1, per_policy=_PER_POLICY)

    def _after_start(self, instants: np.ndarray) -> np.ndarray:
        # No event is later than the cut, and after it nothing happens.
        return instants[(instants > self._from_ns) & (instants <= self._recording.record.cut_ns)]

    # --- one state --------------------------------------------------------------------

    def _look(self, state: CrashState) -> None:
        tally = self._tally
        tally.states += 1
        tally.by_policy[state.policy] += 1
        if state.instant not in tally.legal:
            tally.legal[state.instant] = self._space.legal_log2(state.instant)
        findings = self._findings(state, self._observe(self._space, state))
        if _said(findings):
            again = self._findings(state, self._observe(self._space, state, again=True))
            if _said(again) != _said(findings):
                findings = [_unrepeatable(findings)]
        if _said(findings):
            tally.lossy += 1
        for finding in findings:
            self._keep(state, finding)

    def _observe(
        self, space: FolderSpace, state: CrashState, *, again: bool = False
    ) -> Observation:
        """What the check says; with `again` what it says the second time, once for each folder."""
        tree = space.tree(state)
        name = fingerprint(tree) + bytes([again])
        if name not in self._known:
            target = Path(tempfile.mkdtemp(prefix="state-", dir=self._scratch))
            target.chmod(0o755)
            try:
                build_tree(space, tree, target)
                self._known[name] = self._check(target)
            finally:
                shutil.rmtree(target, ignore_errors=True)
        return self._known[name]

    def _findings(self, state: CrashState, observation: Observation) -> list[Finding]:
        return check_operations(self._recording.history, state.instant, sighting_of(observation))

    def _keep(self, state: CrashState, finding: Finding) -> None:
        tally, key = self._tally, (finding.kind, state.policy)
        if key in tally.kinds or len(tally.kinds) >= _KINDS_MAX:
            return
        tally.kinds.add(key)
        volatile = len(self._space.volatile(state.instant))
        tally.findings.append(
            ProgramFinding(
                kind=finding.kind.value,
                verdict=finding.verdict.name,
                message=finding.message,
                operations=tuple((span.first, span.last) for span in finding.lsns),
                policy=state.policy,
                at_ms=round((state.instant - self._from_ns) / 1e6, 3),
                missing_writes=volatile - len(state.survivors),
                volatile_writes=volatile,
            )
        )

    # --- what it rests on ---------------------------------------------------------------

    def _check_is_believable(self) -> bool:
        """Whether the check says the right thing of the folder as the program found it."""
        start = CrashState(self._from_ns, tuple(self._space.volatile(self._from_ns).tolist()))
        seen = sighting_of(self._observe(self._space, start))
        problems = [f"the check, of the folder at first: {why}" for why in seen.incomplete]
        problems += [f"the check, of the folder at first: {why}" for why in seen.bad]
        if seen.present or seen.wrong:
            problems.append("the check finds operations in the folder before any was tried")
        self._tally.reasons += problems
        return not problems

    def _look_at_control(self) -> str:
        cut = self._recording.record.cut_ns
        space = self._recording.space(self._promise, lying=True)
        state = CrashState(cut, ())
        findings = self._findings(state, self._observe(space, state))
        if any(finding.kind in _NOTICED for finding in findings):
            return Verdict.LOSSY.name
        self._tally.reasons.append(
            "the control did not lose anything: on a host that ignores every sync the check missed "
            "nothing of what was acknowledged; so what it says is no evidence"
        )
        return Verdict.SAFE.name if not findings else Verdict.INCONCLUSIVE.name

    def _result(self, limits: Limits, control: str, seconds: float) -> CaptureResult:
        tally, recording = self._tally, self._recording
        rows = [row for row in self._space.rows if row.request.submitted_ns > self._from_ns]
        inconclusive = any(finding.verdict == "INCONCLUSIVE" for finding in tally.findings)
        if tally.lossy:
            verdict = Verdict.LOSSY
        elif tally.reasons or inconclusive:
            verdict = Verdict.INCONCLUSIVE
        else:
            verdict = Verdict.SAFE
        return CaptureResult(
            verdict=verdict.name,
            promise="posix" if self._promise is Promise.POSIX else "journal",
            attempted=len(recording.history.attempted),
            acknowledged=len(recording.history.acked),
            run_s=round((recording.record.cut_ns - self._from_ns) / 1e9, 3),
            writes=sum(row.kind is not RequestKind.FLUSH and row.change is None for row in rows),
            syncs=sum(row.kind is RequestKind.FLUSH for row in rows),
            changes=sum(row.change is not None for row in rows),
            states=tally.states,
            distinct=sum(not name[-1] for name in self._known),
            lossy_states=tally.lossy,
            by_policy=dict(tally.by_policy),
            instants=len(tally.legal),
            legal_log2=round(log2_sum(list(tally.legal.values())), 1),
            seconds=round(seconds, 2),
            budget=str(limits.budget),
            seed=limits.seed,
            state_s=limits.state_s,
            findings=tuple(sorted(tally.findings, key=lambda one: one.verdict != "LOSSY")),
            reasons=tuple(dict.fromkeys(tally.reasons)),
            control=control,
        )


def _said(findings: list[Finding]) -> list[tuple[FindingKind, tuple[LsnRange, ...]]]:
    return [(one.kind, one.lsns) for one in findings if one.verdict is Verdict.LOSSY]


def _unrepeatable(findings: list[Finding]) -> Finding:
    return Finding(
        FindingKind.DISAGREEMENT,
        Verdict.INCONCLUSIVE,
        "the same folder was checked twice, and the check did not say the same: "
        + "; ".join(finding.message for finding in findings),
    )
