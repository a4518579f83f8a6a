# SPDX-License-Identifier: Apache-2.0
"""The crash states of a program's recording: recovered by its own `check`, and judged.

States are taken in the order of powercut.explore.state_order, first the disk as the cut left it,
and the disk with everything that was issued.

A recording that its host has damaged is not looked at: neither what it loses nor what it keeps
would say anything.  A state that loses something is recovered once more: only what repeats itself
is a loss.  The disk after `setup` comes before all others: a check that finds operations there, or
does not look at everything, cannot be believed, and the verdict is INCONCLUSIVE.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from powercut.checkers.repetition import lose_the_same, loses, repeated
from powercut.crash.states import CrashState
from powercut.explore.operation_tally import OperationTally
from powercut.explore.program_story import story_of
from powercut.explore.request import Budget
from powercut.explore.state_images import AnswerCache, StateImages
from powercut.explore.state_order import StateOrder
from powercut.model.enough import STATES_MIN
from powercut.model.errors import HostError
from powercut.model.observation import Observation
from powercut.model.timeline import RequestKind
from powercut.model.verdict import Finding, FindingKind, Verdict
from powercut.recording.materialize import cut_state
from powercut.recording.program import ProgramRecording
from powercut.recording.several_places import places_on
from powercut.recover.port import ImageWrite, RecoveryEngine, SecondLook
from powercut.store.program import ProgramResult
from powercut.workload.program.check import check_operations, doubts_before
from powercut.workload.program.claims import sighting_of

_BOOT_S: Final = 90.0

Listener = Callable[[int, int], None]
"""Hears how many states were checked, and how many of them lose something."""


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
        self._places = places_on(recording.directory.base, recording.space.timeline.disks)
        ready = recording.history.ready_ns or int(recording.space.timeline.start_ns)
        self._tally = OperationTally(recording.space, ready, self._story)
        self._pruned = 0

    def judge(self, budget: Budget) -> ProgramResult:
        """Recovers states until the budget is used up.  Starts the engine."""
        start = time.monotonic()
        tally, history = self._tally, self._recording.history
        tally.reasons += self._recording.gaps
        if self._recording.doubts:
            return self._result(0.0)
        tally.require_operations(len(history.acked))
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
        doubts = doubts_before(sighting_of(self._recover_again([])))
        self._tally.reasons += doubts
        return not doubts

    def _explore(self, budget: Budget) -> None:
        space = self._recording.space
        cut = self._recording.record.cut_ns
        assert cut is not None
        issued = tuple(space.volatile(cut).tolist())
        at_cut = (cut_state(space), CrashState(cut, issued, policy="everything-issued"))
        StateOrder(space, at_cut, seed=self._seed).walk(budget, self._look)

    def _look(self, state: CrashState) -> None:
        tally = self._tally
        writes = self._images.writes(state)
        self._decided.advance(writes)
        observation = self._decided.find()
        if observation is not None:
            self._pruned += 1
        else:
            observation = self._engine.recover(writes, timeout_s=self._state_s)
            self._decided.learn(None, observation)
        findings = self._findings(state, observation)
        if loses(findings):
            findings = self._confirmed(state, writes, findings)
        tally.add(state, findings)
        self._listener(tally.states, tally.lossy)

    def _confirmed(
        self, state: CrashState, writes: Sequence[ImageWrite], first: list[Finding]
    ) -> list[Finding]:
        """What two recoveries in a row say of a state of which `first` was said."""

        def again() -> list[Finding]:
            return self._findings(state, self._recover_again(writes))

        if isinstance(self._engine, SecondLook):
            longer = again()
            return longer if lose_the_same(first, longer) else [*repeated(longer, again)]
        return [*repeated(first, again)]

    def _recover_again(self, writes: Sequence[ImageWrite]) -> Observation:
        if isinstance(self._engine, SecondLook):
            return self._engine.look_again(writes, timeout_s=self._state_s)
        return self._engine.recover(writes, timeout_s=self._state_s)

    def _findings(self, state: CrashState, observation: Observation) -> list[Finding]:
        if not observation.recovered and observation.complete:
            message = f"the file system does not mount: {observation.failure}"
            return [Finding(FindingKind.NOT_RECOVERED, Verdict.LOSSY, message)]
        return check_operations(self._recording.history, state.instant, sighting_of(observation))

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
        return ProgramResult(
            verdict=tally.verdict.name,
            attempted=len(history.attempted),
            acknowledged=len(history.acked),
            run_s=round(((recording.record.cut_ns or ready) - ready) / 1e9, 3),
            flushes=int((requests.kind == RequestKind.FLUSH).sum()),
            writes=int(requests.is_write.sum()),
            states=tally.states,
            states_pruned=self._pruned,
            states_same_files=engine.same_files if engine else 0,
            states_on_host=engine.on_host if engine else 0,
            lossy_states=tally.lossy,
            by_policy=dict(tally.by_policy),
            instants=tally.instants,
            legal_log2=tally.legal_log2,
            seconds=round(seconds, 2),
            seed=self._seed,
            state_s=self._state_s,
            findings=tally.findings,
            reasons=tuple(dict.fromkeys(tally.reasons)),
        )
