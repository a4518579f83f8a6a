# SPDX-License-Identifier: Apache-2.0
"""The crash states of a program's recording: recovered by its own `check`, and judged.

States are taken in this order, so that a small budget sees most:

1. the disk as the cut left it, and the disk with everything that was issued;
2. durable-only at acks, spread over the whole run: what the program promised, at the instant at
   which it promised it, on the worst disk that the contract permits.  Up to half of the budget;
3. all policies, a few instants at a time.

A recording that its host has damaged is not looked at: neither what it loses nor what it keeps
would say anything.  A state that loses something is recovered once more: only what repeats itself
is a loss.  The disk after `setup` comes before all others: a check that finds operations there, or
does not look at everything, cannot be believed, and the verdict is INCONCLUSIVE.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from powercut.crash.explore import Exploration, InstantKind, events, sample
from powercut.crash.states import CrashState
from powercut.explore.program_story import story_of
from powercut.explore.request import Budget
from powercut.explore.state_images import AnswerCache, StateImages
from powercut.model.errors import HostError
from powercut.model.log2 import log2_sum
from powercut.model.observation import Observation
from powercut.model.timeline import RequestKind
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.recording.disk_places import places_of
from powercut.recording.materialize import cut_state
from powercut.recording.program import ProgramRecording
from powercut.recover.port import ImageWrite, RecoveryEngine, SecondLook
from powercut.store.program import ProgramFinding, ProgramResult
from powercut.workload.program.check import check_operations
from powercut.workload.program.claims import sighting_of

OPERATIONS_MIN: Final = 10
"""Acknowledged operations below which a run proves nothing."""

STATES_MIN: Final = 32
_BOOT_S: Final = 90.0
_FIRST_INSTANTS: Final = 256
_PER_POLICY: Final = 1024
_A_FEW: Final = 4
_AT_ONCE: Final = 8
_DIFFERENT_FINDINGS_MAX: Final = 6

Listener = Callable[[int, int], None]
"""Hears how many states were checked, and how many of them lose something."""


@dataclass
class _Tally:
    """What has been found so far."""

    states: int = 0
    pruned: int = 0
    lossy: int = 0
    by_policy: Counter[str] = field(default_factory=Counter)
    legal: dict[int, float] = field(default_factory=dict)
    findings: list[ProgramFinding] = field(default_factory=list)
    kinds: set[tuple[str, str]] = field(default_factory=set)
    reasons: list[str] = field(default_factory=list)


class ProgramExplorer:
    """Judges one recording with an engine that runs the program's check in each state."""

    def __init__(
        self,
        recording: ProgramRecording,
        engine: RecoveryEngine,
        *,
        seed: int,
        state_s: float,
        listener: Listener,
    ) -> None:
        """`state_s` is what one recovery with its check may take."""
        self._recording = recording
        self._engine = engine
        self._seed = seed
        self._state_s = state_s
        self._listener = listener
        self._images = StateImages(recording.space)
        self._decided = AnswerCache(recording.directory.base)
        self._places = places_of(recording.directory.base)
        self._tally = _Tally()

    def judge(self, budget: Budget) -> ProgramResult:
        """Recovers states until the budget is used up.  Starts the engine."""
        start = time.monotonic()
        tally, history = self._tally, self._recording.history
        tally.reasons += self._recording.gaps
        if self._recording.doubts:
            return self._result(0.0)
        if len(history.acked) < OPERATIONS_MIN:
            tally.reasons.append(
                f"{len(history.acked)} operations were acknowledged, and fewer than "
                f"{OPERATIONS_MIN} prove nothing"
            )
        try:
            self._engine.start(timeout_s=_BOOT_S)
            if self._check_is_believable():
                self._explore(budget)
        except HostError as error:
            tally.reasons.append(f"recovery: {error}")
        if tally.states < STATES_MIN and not tally.lossy:
            tally.reasons.append(f"only {tally.states} states were recovered")
        return self._result(time.monotonic() - start)

    def _check_is_believable(self) -> bool:
        """Whether the check says the right thing of the disk after `setup`."""
        seen = sighting_of(self._recover_again([]))
        if seen.present or seen.wrong:
            self._tally.reasons.append(
                "the check finds operations on the disk on which only `setup` has run"
            )
        self._tally.reasons += [f"the check, after `setup` alone: {why}" for why in seen.bad]
        self._tally.reasons += [f"the check, after `setup` alone: {why}" for why in seen.incomplete]
        return not (seen.present or seen.wrong or seen.bad or seen.incomplete)

    def _explore(self, budget: Budget) -> None:
        start = time.monotonic()
        for states, share in ((self._first_states(budget), 0.5), (self._all_states(), 1.0)):
            for state in states:
                spent = time.monotonic() - start
                if budget.seconds is not None and spent > share * budget.seconds:
                    break
                if budget.states is not None and self._tally.states >= share * budget.states:
                    break
                self._look(state)
                self._listener(self._tally.states, self._tally.lossy)

    def _first_states(self, budget: Budget) -> Iterator[CrashState]:
        space = self._recording.space
        cut = self._recording.record.cut_ns
        assert cut is not None
        yield cut_state(space)
        yield CrashState(cut, tuple(space.volatile(cut).tolist()), policy="everything-issued")
        count = _FIRST_INSTANTS if budget.states is None else max(1, budget.states // 2)
        acks = sample(events(space, [InstantKind.ACK]), count, self._seed)
        # In random order, so that a short budget has seen them all over the run.
        acks = np.random.default_rng(self._seed).permutation(acks)
        yield from Exploration(space, acks, ("durable-only",), seed=self._seed)

    def _all_states(self) -> Iterator[CrashState]:
        """All policies at a few instants, then at the next few, in random order: a budget that
        would not last for one policy at all instants then sees a part of each.

        Those at which nothing is volatile have one state, which comes with the acks.
        """
        space = self._recording.space
        instants = events(space, list(InstantKind))
        order = np.random.default_rng(self._seed + 1).permutation(instants)
        choice = np.array([one for one in order.tolist() if len(space.volatile(one))], np.int64)
        for per_policy in (_A_FEW, _PER_POLICY):
            for begin in range(0, len(choice), _AT_ONCE):
                chosen = choice[begin : begin + _AT_ONCE]
                yield from Exploration(space, chosen, seed=self._seed + 1, per_policy=per_policy)
        yield from Exploration(space, instants, seed=self._seed + 1, per_policy=_PER_POLICY)

    def _look(self, state: CrashState) -> None:
        tally, space = self._tally, self._recording.space
        writes = self._images.writes(state)
        self._decided.advance(writes)
        observation = self._decided.find()
        if observation is not None:
            tally.pruned += 1
        else:
            observation = self._engine.recover(writes, timeout_s=self._state_s)
            self._decided.learn(None, observation)
        tally.states += 1
        tally.by_policy[state.policy] += 1
        if state.instant not in tally.legal:
            tally.legal[state.instant] = space.legal_log2(state.instant)
        findings = self._findings(state, observation)
        if any(finding.verdict is Verdict.LOSSY for finding in findings):
            findings = self._confirmed(state, writes, findings)
        if any(finding.verdict is Verdict.LOSSY for finding in findings):
            tally.lossy += 1
        self._keep(state, findings)

    def _confirmed(
        self, state: CrashState, writes: list[ImageWrite], first: list[Finding]
    ) -> list[Finding]:
        """What two recoveries in a row say of a state of which `first` was said."""
        again = self._findings(state, self._recover_again(writes))
        if _said(again) != _said(first) and isinstance(self._engine, SecondLook):
            first, again = again, self._findings(state, self._recover_again(writes))
        return again if _said(again) == _said(first) else [_unrepeatable(first)]

    def _recover_again(self, writes: list[ImageWrite]) -> Observation:
        if isinstance(self._engine, SecondLook):
            return self._engine.look_again(writes, timeout_s=self._state_s)
        return self._engine.recover(writes, timeout_s=self._state_s)

    def _findings(self, state: CrashState, observation: Observation) -> list[Finding]:
        if not observation.recovered and observation.complete:
            message = f"the file system does not mount: {observation.failure}"
            return [Finding(FindingKind.NOT_RECOVERED, Verdict.LOSSY, message)]
        return check_operations(self._recording.history, state.instant, sighting_of(observation))

    def _keep(self, state: CrashState, findings: list[Finding]) -> None:
        """The first of each kind and policy, the worst first when they are shown."""
        tally, space = self._tally, self._recording.space
        ready = self._recording.history.ready_ns or int(space.timeline.start_ns)
        for finding in findings:
            key = (finding.kind.value, state.policy)
            if key in tally.kinds or len(tally.kinds) >= _DIFFERENT_FINDINGS_MAX:
                continue
            tally.kinds.add(key)
            volatile = len(space.volatile(state.instant))
            tally.findings.append(
                ProgramFinding(
                    kind=finding.kind.value,
                    verdict=finding.verdict.name,
                    message=finding.message,
                    operations=tuple((span.first, span.last) for span in finding.lsns),
                    policy=state.policy,
                    at_ms=round((state.instant - ready) / 1e6, 3),
                    missing_writes=volatile - len(state.survivors),
                    volatile_writes=volatile,
                    story=self._story(state, finding),
                )
            )

    def _story(self, state: CrashState, finding: Finding) -> tuple[str, ...]:
        if finding.verdict is not Verdict.LOSSY:
            return ()
        recording = self._recording
        return story_of(recording.history, recording.space, state, finding.lsns, self._places)

    def _result(self, seconds: float) -> ProgramResult:
        tally, recording = self._tally, self._recording
        history, requests = recording.history, recording.space.timeline.requests
        ready = history.ready_ns or int(recording.space.timeline.start_ns)
        engine = self._engine if isinstance(self._engine, SecondLook) else None
        tally.reasons += engine.doubts if engine else ()
        inconclusive = any(finding.verdict == "INCONCLUSIVE" for finding in tally.findings)
        if tally.lossy:
            verdict = Verdict.LOSSY
        elif tally.reasons or inconclusive:
            verdict = Verdict.INCONCLUSIVE
        else:
            verdict = Verdict.SAFE
        return ProgramResult(
            verdict=verdict.name,
            attempted=len(history.attempted),
            acknowledged=len(history.acked),
            run_s=round(((recording.record.cut_ns or ready) - ready) / 1e9, 3),
            flushes=int((requests.kind == RequestKind.FLUSH).sum()),
            writes=int(requests.is_write.sum()),
            states=tally.states,
            states_pruned=tally.pruned,
            states_same_files=engine.same_files if engine else 0,
            states_on_host=engine.on_host if engine else 0,
            lossy_states=tally.lossy,
            by_policy=dict(tally.by_policy),
            instants=len(tally.legal),
            legal_log2=round(log2_sum(list(tally.legal.values())), 1),
            seconds=round(seconds, 2),
            seed=self._seed,
            state_s=self._state_s,
            findings=tuple(sorted(tally.findings, key=lambda one: one.verdict != "LOSSY")),
            reasons=tuple(dict.fromkeys(tally.reasons)),
        )


def _said(findings: list[Finding]) -> list[tuple[FindingKind, tuple[LsnRange, ...]]]:
    return [
        (finding.kind, finding.lsns) for finding in findings if finding.verdict is Verdict.LOSSY
    ]


def _unrepeatable(findings: list[Finding]) -> Finding:
    return Finding(
        FindingKind.DISAGREEMENT,
        Verdict.INCONCLUSIVE,
        "the same disk was recovered twice, and the check did not say the same: "
        + "; ".join(finding.message for finding in findings),
    )
