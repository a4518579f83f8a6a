# SPDX-License-Identifier: Apache-2.0
"""Recovers and judges crash states: one worker, which has one engine."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

from powercut.checkers.repetition import lose_the_same, loses, repeated, without_whole
from powercut.closing import ResourceOwner
from powercut.crash.states import CrashState
from powercut.crash.whole import lacks_nothing
from powercut.explore.depth import (
    Recovered,
    SecondCuts,
    SecondState,
    StateCount,
    cut_again,
    states_of,
)
from powercut.explore.recovery_timeline import durability_during_recovery, timeline_of_record
from powercut.explore.request import Prune
from powercut.explore.state_images import AnswerCache
from powercut.explore.state_judge import StateJudge, claims_at
from powercut.explore.work import Answers, Batch, Deepen, StateJudgement, Work
from powercut.model.errors import HostError
from powercut.model.observation import Observation
from powercut.model.positive import Whole
from powercut.model.timeline import Timeline
from powercut.model.verdict import Finding, FindingKind, Verdict
from powercut.recording import state_ref
from powercut.recording.disk import DiskRecording, cut_state
from powercut.recording.sealed import TrialRecording, open_trial
from powercut.recover.port import ImageWrite, RecordsRecoveries, SecondLook, TracksReads
from powercut.rig.engine_choice import EngineChoice
from powercut.rig.engine_shelf import EngineShelf
from powercut.store.trial_dir import TrialDir
from powercut.workload.port import NOTHING_LATER, AcksByLines, StateClaims
from powercut.workload.table import workload_of

RERUN_ONE_IN: Final = 100
"""Of the states decided by pruning one in so many is recovered all the same."""


class LocalWorker(ResourceOwner):
    """A worker in this process."""

    def __init__(
        self, work: Work, recorded: DiskRecording | None = None, shelf: EngineShelf | None = None
    ) -> None:
        super().__init__()
        self._work = work
        self._recorded = recorded or (work.opens or open_trial)(TrialDir(work.trial, work.run))
        self._states = StateJudge(
            self._recorded,
            EngineChoice(work.engine, kernel=work.kernel),
            after=work.after,
            again=work.depth > 0,
            track_reads=work.prune is Prune.READS,
            shelf=shelf,
        )
        self._decided: AnswerCache | None = None
        self._doubts: tuple[str, ...] = ()
        self._second: SecondLook | None = None
        self._tracks: TracksReads | None = None
        self._short: set[bytes] = set()  # disks that the engine has decided in its shorter way
        self._twice: set[bytes] = set()  # disks of which two recoveries have said the same
        self._rerun = random.Random(f"{work.seed}/rerun")
        self._durability = durability_during_recovery(
            self._recorded.timeline, self._recorded.parameters.machine
        )

    def _open(self, stack: ExitStack) -> None:
        stack.enter_context(self._states)
        # Asked once: it takes long to see whether an object has all methods of a protocol.
        engine = self._states.engine
        self._second = engine if isinstance(engine, SecondLook) else None
        self._tracks = engine if isinstance(engine, TracksReads) else None
        if self._work.prune is not Prune.NOTHING:
            self._decided = AnswerCache(self._recorded.directory.base_image, self._states.engine)

    def answer(self, batch: Batch) -> Answers:
        """Does what `batch` asks for."""
        return self.deepen(batch) if isinstance(batch, Deepen) else self.judge(batch)

    def judge(self, states: Sequence[CrashState]) -> Answers:
        """Recovers and judges `states`, in order of time: the disk then changes least."""
        if self._work.by_batch:
            self._forget(states)
        in_time = sorted(range(len(states)), key=lambda at: states[at].instant)
        judged = {
            at: self._convicting(states[at], self._of_recording(states[at])) for at in in_time
        }
        return Answers(tuple(judged[at] for at in range(len(states))), self._states.boots)

    def _of_recording(self, state: CrashState) -> StateJudgement:
        if self._states.turn_to(state.instant) and self._decided is not None:
            self._decided.forget()  # it was asked for something else
        return self._judge(self._states.writes(state), claims_at(self._recorded, state))

    def _convicting(self, state: CrashState, judged: StateJudgement) -> StateJudgement:
        """`judged`, in which a state that lacks nothing convicts nobody.

        But where a run that ended without a cut has shown that the check finds what the disk was
        never given, the state does; and of bytes that are recognised exposure analysis speaks.
        """
        positive, cut = self._recorded.positive, self._recorded.timeline.cut
        if positive is None or positive.where is Whole.ENDED or cut is None:
            return judged
        if not loses(judged.findings):
            return judged
        if not lacks_nothing(self._recorded.space, state, int(cut.at)):
            return judged
        return replace(judged, findings=without_whole(judged.findings))

    def _forget(self, states: Sequence[CrashState]) -> None:
        self._short.clear()
        self._twice.clear()
        first = state_ref.state_id(states[0]) if states else ""
        self._rerun.seed(f"{self._work.seed}/rerun/{first}")
        if self._decided is not None:
            self._decided.forget()

    def deepen(self, task: Deepen) -> Answers:
        """Puts a recovery on record, and judges states that a cut during it may have left."""
        cuts = SecondCuts(self, task)
        try:
            if task.state is None:
                first, recovered = self._live_recovery()
                cuts.count.live = 1
                cuts.cut(first, recovered)
            else:
                cuts.follow(task.state)
        except HostError as error:
            cuts.judged.append(StateJudgement((_engine_failed(error),), policy="recovery"))
        return Answers(tuple(cuts.judged), self._states.boots, cuts.count)

    def _live_recovery(self) -> tuple[CrashState, Recovered]:
        recorded = self._recorded
        first = cut_state(recorded.space)
        assert isinstance(recorded, TrialRecording), "no other has a live recovery"
        timeline = recorded.sealed.recovery_log
        if not timeline.complete:
            raise HostError("the log of the live recovery was not closed properly")
        return first, Recovered(timeline, self._states.writes(first))

    def record(self, first: CrashState, second: SecondState | None) -> Recovered | None:
        if second is None:
            return self._record(self._states.writes(first), claims_at(self._recorded, first))
        return self._record(second.writes, claims_at(self._recorded, self.beneath(first, second)))

    def _record(self, writes: Sequence[ImageWrite], claims: StateClaims) -> Recovered | None:
        engine = self._states.engine
        if not isinstance(engine, RecordsRecoveries):
            return None
        observation, raw = engine.record(writes, timeout_s=self._states.state_s)
        if raw is None:
            return None
        if isinstance(raw, Timeline):
            timeline = raw
        else:
            timeline = timeline_of_record(
                raw,
                disk_size=self._recorded.space.timeline.disk_size,
                durability=self._durability,
            )
        later = observation.later
        promised = self._recorded.promises.claims_after(later) if later else NOTHING_LATER
        by_lines = isinstance(workload_of(self._recorded.parameters), AcksByLines)
        doubts = self._states.findings(claims, observation) if by_lines else ()
        return Recovered(timeline, writes, promised, doubts)

    def states_of(
        self, record: Recovered, limit: int, seed: str, drawn: Callable[[StateCount], None]
    ) -> Iterator[SecondState]:
        return states_of(
            record,
            self._recorded.parameters.cut.kind,
            policies=self._work.policies,
            model=self._work.model,
            seed=seed,
            limit=limit,
            drawn=drawn,
        )

    def beneath(self, first: CrashState, second: SecondState) -> CrashState:
        """`first` and what its recovery had left on the disk."""
        return cut_again(first, second)

    def judge_second(self, first: CrashState, second: SecondState) -> StateJudgement:
        """What came of a state of a recovery of `first`."""
        claims = claims_at(self._recorded, first)
        claims = replace(claims, later=claims.later + second.later)
        judged = self._judge(second.writes, claims)
        policy = f"recovery/{second.state.policy}"
        if not judged.findings:
            return replace(judged, policy=policy)
        told = tuple(
            replace(finding, message=f"{second.what}: {finding.message}")
            for finding in judged.findings
        )
        return replace(judged, findings=told, policy=policy, again=cut_again(first, second))

    def _judge(self, writes: Sequence[ImageWrite], claims: StateClaims) -> StateJudgement:
        def found(observation: Observation) -> StateJudgement:
            later = observation.later
            return StateJudgement(
                self._states.findings(claims, observation),
                went_on=later is not None and not later.no_room,
                no_room=later is not None and later.no_room,
            )

        expected, disk, again = None, b"", False
        if self._decided is not None:
            self._decided.advance(writes)
            disk = self._decided.disk
            expected = self._decided.find()
            if expected is not None and self._rerun.randrange(RERUN_ONE_IN):
                pruned = replace(found(expected), pruned=True, disk=disk)
                again = loses(pruned.findings) and disk not in self._twice
                if not again:
                    return pruned
        had = self._same_files
        try:
            observation = expected if expected and again else self._states.recover(writes)
            doubts = self._new_doubts()
            short = disk in self._short if again else self._was_short
            judged, once = found(observation), False
            if loses(judged.findings):
                first = observation
                observation, judged = self._look_again(writes, found, judged, short=short)
                once = bool(judged.findings) and not loses(judged.findings)
                if self._are_same(first, observation):
                    self._twice.add(disk)
                elif short:
                    doubts += (_shorter_way_differs(),)
                short = False
        except HostError as error:
            return StateJudgement((_engine_failed(error),), disk=disk)
        same = short and self._same_files > had
        found_all = (*judged.findings, *doubts)
        judged = replace(judged, findings=found_all, disk=disk, same_files=same)
        if self._decided is None or once:
            return judged
        if expected is not None and not again:
            if not self._are_same(expected, observation):
                judged = replace(judged, findings=(*judged.findings, _pruned_wrongly()))
            return replace(judged, pruned=True, rerun=True)
        reads = self._tracks.reads if self._tracks else None
        self._decided.learn(reads, observation)
        if short:
            self._short.add(disk)
        elif observation.complete:
            self._short.discard(disk)
        return judged

    def _look_again(
        self,
        writes: Sequence[ImageWrite],
        found: Callable[[Observation], StateJudgement],
        judged: StateJudgement,
        *,
        short: bool,
    ) -> tuple[Observation, StateJudgement]:
        """What a second recovery sees of a state that loses something, and what counts of it.

        After a `short` look the longer way is believed: what it loses instead it must repeat.
        """
        observation = self._states.look_again(writes)
        second = found(observation)
        if short and not lose_the_same(judged.findings, second.findings):
            if not loses(second.findings):
                return observation, second
            judged, second = second, found(self._states.look_again(writes))
        nodes = self._recorded.parameters.nodes
        findings, repeats = repeated(judged.findings, lambda: second.findings, nodes=nodes)
        return observation, replace(judged, findings=findings, repeats=repeats)

    @property
    def _same_files(self) -> int:
        return self._second.same_files if self._second else 0

    @property
    def _was_short(self) -> bool:
        return self._second is not None and self._second.was_short

    def _are_same(self, one: Observation, other: Observation) -> bool:
        workload = workload_of(self._recorded.parameters)
        return (workload.same if isinstance(workload, AcksByLines) else _same)(one, other)

    def _new_doubts(self) -> tuple[Finding, ...]:
        """Why what the engine decided in a shorter way is not to be believed; told once."""
        if self._second is None or self._second.doubts == self._doubts:
            return ()
        self._doubts = self._second.doubts
        return tuple(
            Finding(FindingKind.DISAGREEMENT, Verdict.INCONCLUSIVE, doubt) for doubt in self._doubts
        )


def _same(one: Observation, other: Observation) -> bool:
    """Whether two observations differ in nothing but the words of a kernel."""
    return _without_words(one) == _without_words(other)


def _without_words(seen: Observation) -> Observation:
    later = seen.later
    if later is not None:
        said = replace(later.observation, failure="")
        later = replace(later, observation=said, failure="failed" if later.failure else "")
    return replace(seen, failure="", later=later)


def _engine_failed(error: HostError) -> Finding:
    return Finding.unknown(
        f"the engine failed, and nothing is known of this state: {error}"
        + (f"; what to do: {error.hint}" if error.hint else ""),
    )


def _shorter_way_differs() -> Finding:
    return Finding(
        FindingKind.DISAGREEMENT,
        Verdict.INCONCLUSIVE,
        "the check on the host found a loss that the check in the guest did not find so: the "
        "guest is believed",
    )


def _pruned_wrongly() -> Finding:
    return Finding(
        FindingKind.DISAGREEMENT,
        Verdict.INCONCLUSIVE,
        "a state recovers otherwise than one that agrees with it on all that was read: "
        "a bug in powercut, or a recovery that is not repeatable",
    )
