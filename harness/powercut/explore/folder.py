# SPDX-License-Identifier: Apache-2.0
"""The crash states of a captured folder: made, checked by the user's command, and judged.

States come in the order of powercut.explore.state_order, first what a cut at the end leaves at
least, and with everything that was issued.  Those before the program was `ready`, or without that
word before its first attempt, are not looked at: nothing was promised.

States that look the same are checked once.  One that loses something is made and checked a second
time, and counts only if the check says the same again.

The control is the same recording on a host that ignores every sync: of all that was
acknowledged the check must miss something there.  No SAFE without it.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from powercut.crash.folder import FolderSpace
from powercut.crash.folder_rows import Promise
from powercut.crash.states import CrashState
from powercut.explore.operation_tally import OperationTally, losses, not_repeated
from powercut.explore.request import Budget
from powercut.explore.state_order import StateOrder
from powercut.explore.tally import groups_of
from powercut.model.enough import STATES_MIN
from powercut.model.observation import Observation
from powercut.model.timeline import RequestKind
from powercut.model.verdict import Finding, FindingKind, Verdict
from powercut.recording.folder import CaptureRecording, build_tree, fingerprint
from powercut.store.exploration import StateGroups
from powercut.store.folder import CaptureResult
from powercut.workload.program.check import check_operations, doubts_before
from powercut.workload.program.claims import sighting_of

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
        history = recording.history
        begin = int(recording.folder.begin_ns)
        first = int(history.attempt_ns[0]) if len(history.attempt_ns) else begin
        self._from_ns = first if history.ready_ns is None else history.ready_ns
        self._tally = OperationTally(self._space, self._from_ns)
        self._groups: StateGroups | None = None

    def judge(self, limits: Limits) -> CaptureResult:
        """Looks at states until the budget is used up.  Raises HostError."""
        start = time.monotonic()
        tally, history = self._tally, self._recording.history
        tally.reasons += self._recording.gaps
        control = ""
        if not self._recording.doubts:
            tally.require_operations(len(history.acked))
            exhausted = False
            if self._check_is_believable():
                control = self._look_at_control()
                exhausted = self._explore(limits)
            if tally.states < STATES_MIN and not tally.lossy and not exhausted:
                tally.reasons.append(f"only {tally.states} states were looked at")
        return self._result(limits, control, time.monotonic() - start)

    def _explore(self, limits: Limits) -> bool:
        """Whether all states were seen."""
        space, cut = self._space, self._recording.record.cut_ns
        at_cut = (
            CrashState(cut, (), policy="durable-only"),
            CrashState(cut, tuple(space.volatile(cut).tolist()), policy="everything-issued"),
        )
        # No event is later than the cut, and after it nothing happens.
        order = StateOrder(space, at_cut, seed=limits.seed, between=(self._from_ns, cut))
        exhausted = order.walk(limits.budget, self._look)
        self._groups = groups_of(order.grouped.coverage())
        return exhausted

    # --- one state --------------------------------------------------------------------

    def _look(self, state: CrashState) -> None:
        state = self._space.legal(state)
        findings = self._findings(state, self._observe(self._space, state))
        if losses(findings):
            again = self._findings(state, self._observe(self._space, state, again=True))
            if losses(again) != losses(findings):
                findings = [not_repeated("the same folder was checked twice", findings)]
        self._tally.add(state, findings)
        self._listener(self._tally.states, self._tally.lossy)

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

    # --- what it rests on ---------------------------------------------------------------

    def _check_is_believable(self) -> bool:
        """Whether the check says the right thing of the folder as the program found it."""
        start = CrashState(self._from_ns, tuple(self._space.volatile(self._from_ns).tolist()))
        seen = sighting_of(self._observe(self._space, start))
        doubts = doubts_before(
            seen, where="in the folder before any was tried", of="the folder at first"
        )
        self._tally.reasons += doubts
        return not doubts

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
        return CaptureResult(
            verdict=tally.verdict.name,
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
            instants=tally.instants,
            legal_log2=tally.legal_log2,
            seconds=round(seconds, 2),
            budget=str(limits.budget),
            seed=limits.seed,
            state_s=limits.state_s,
            findings=tally.findings,
            reasons=tuple(dict.fromkeys(tally.reasons)),
            groups=self._groups,
            control=control,
        )
