# SPDX-License-Identifier: Apache-2.0
"""Explores the crash states of one recording, of a disk or a folder: draw, recover, judge, add up.

What is checked, and what follows from it:

1. Each state is legal at its instant, and judged against what was required and attempted then.
2. A state that an engine could not recover for reasons of its own is INCOMPLETE.
3. What is lost must agree with exposure analysis (powercut.explore.disks).
4. Nothing found in states that were checked is SAFE; no state checked is not.

If second cuts are wanted, a part of the budget is theirs: recoveries of states that were
checked, drawn by the seed, and the live recovery of the recording (powercut.explore.depth).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Final

from powercut import __version__
from powercut.checkers.repetition import loses
from powercut.crash.explore import Coverage, Exploration, InstantKind
from powercut.crash.order import Selection
from powercut.crash.states import CrashState, Model, Requirements, StateSpace
from powercut.explore.clock import BATCH_MAX, Clock
from powercut.explore.disks import DiskMedium
from powercut.explore.file_maps import map_program
from powercut.explore.findings import NO_STATE, FindingCollector, torn_within
from powercut.explore.medium import BulkReader, Medium
from powercut.explore.request import (
    PER_RECOVERY,
    RECOVERIES_MAX,
    ExploreProgress,
    ExploreRequest,
    Listener,
    Reservoir,
    Undrawn,
)
from powercut.explore.state_judge import require_seeing
from powercut.explore.state_map import StateMapper
from powercut.explore.work import (
    Answers,
    Batch,
    Deepen,
    Recoveries,
    Spread,
    StateJudgement,
    Workers,
)
from powercut.model.confidence import log2_sum
from powercut.model.operations import OperationHistory
from powercut.model.verdict import Finding, Verdict
from powercut.recording.consent import require_consent
from powercut.recording.sealed import SealedTrial
from powercut.rig.engine_shelf import EngineShelf
from powercut.rig.rig import require_recorded_program
from powercut.rig.scratch import scratch
from powercut.store.exploration import (
    ExploreCoverage,
    ExploreResult,
    StateGroups,
    write_exploration,
)
from powercut.store.states_recovered import StatesAtAcks

_EVENT_S: Final = 0.2


def explore(
    sealed: SealedTrial,
    wanted: ExploreRequest | None = None,
    *,
    keep: bool = True,
    on_event: Listener = lambda _: None,
    shelf: EngineShelf | None = None,
    spread: Spread | None = None,
) -> ExploreResult:
    """Explores a recording; leaves exploration.json beside it if it is to `keep`.

    A single job takes its engine from the `shelf`, if there is one.  With a `spread` the
    workers of a cluster judge the states.

    Under another atomic unit than the recorded disk's nothing is kept: what is found is true of
    another disk.

    Raises UsageError for an engine that cannot do this recording, HostError if this host
    cannot run it or has another program than was recorded, DamagedRecording if there is nothing
    to explore.
    """
    begun = time.monotonic()
    recorded, record, trial = sealed.opened, sealed.record, sealed.directory
    require_consent(trial, recorded.parameters)
    require_seeing(recorded)
    require_recorded_program(recorded.parameters, record.versions, record.program_files)
    unit = wanted.atomic_unit if wanted else None
    if unit is not None and unit != recorded.space.unit:
        recorded, keep = recorded.tearing_at(unit), False
    wanted = wanted or ExploreRequest()
    medium = DiskMedium(recorded, wanted, shelf=shelf, spread=spread)
    result = ExplorerRun(medium, wanted, on_event, keep=keep, begun=begun).explore()
    if keep:
        write_exploration(trial, result)
        map_program(recorded, result, shelf)
    return result


class ExplorerRun:
    """One exploration of one medium."""

    def __init__(
        self,
        medium: Medium,
        wanted: ExploreRequest,
        on_event: Listener = lambda _: None,
        *,
        keep: bool = True,
        begun: float | None = None,
    ) -> None:
        self.medium = medium
        self.wanted = wanted
        self.keep = keep
        self.on_event = on_event
        space = medium.space
        self.collected = FindingCollector(
            torn_within(space), lambda instant: len(space.volatile(instant))
        )
        self.tally = Tally()
        self.undrawn = Undrawn(wanted.named)
        self.asked = 0
        self.first_share = wanted.budget.first_share(after=wanted.after, depth=wanted.depth)
        self.chosen = Reservoir(wanted.seed, RECOVERIES_MAX)
        self.clock = Clock(wanted.budget, self.first_share, wanted.jobs, begun=begun)
        self._told = 0.0
        self._in_bulk = False
        self._at_cut = tuple(medium.at_cut)[: self.first_share.states]
        instants = medium.instants(wanted.at)
        ends = [*(one.instant for one in self._at_cut), *instants[:1].tolist()]
        ends += instants[-1:].tolist()
        self.mapper = StateMapper(space, min(ends, default=0), max(ends, default=0))
        limit = self.first_share.states
        self.exploration: Exploration | BulkReader = Selection(
            wanted.policies,
            wanted.model,
            wanted.seed,
            wanted.per_policy,
            None if limit is None else limit - len(self._at_cut),
            medium.names,
        ).of(space, instants)

    @property
    def per_recovery(self) -> int:
        """States that are checked of each recovery on record: one is that of its end."""
        return PER_RECOVERY if self.wanted.depth else 1

    def explore(self) -> ExploreResult:
        for gap in self.medium.gaps:
            self.collected.add_general(Finding.unknown(f"the recording: {gap}"))
        self._tell("starting", force=True)
        with scratch() as folder:
            bulk = self.medium.bulk(self.wanted, self.collected, self.mapper, folder)
            if bulk is not None:
                self._read_in_bulk(bulk)
        if bulk is None:
            self._explore_with_workers()
        seconds = self.clock.worked
        self._compare_with_other_ways()
        self._tell("confirming", force=True)
        return self.result(seconds)

    def _read_in_bulk(self, bulk: BulkReader) -> None:
        self._in_bulk = True
        self.clock.work()
        bulk.run(lambda: self._more(bulk))
        self.exploration = bulk
        self.tally.checked, self.tally.compared = bulk.checked, bulk.compared

    def _more(self, bulk: BulkReader) -> bool:
        self.tally.checked = bulk.checked
        self._tell("exploring")
        return self.clock.has_time(0, bulk.checked, 0.0)

    def _explore_with_workers(self) -> None:
        self.wanted, doubts = self.medium.possible(self.wanted)
        self.collected.add_general(*doubts)
        with self.medium.workers(self.wanted) as workers:
            self._judge_all(workers)
            self._cut_again(workers)
            self._judge_the_rest(workers)

    def _judge_all(self, workers: Workers) -> None:
        self.clock.work()
        first = len(self._at_cut)
        for number, (state, judged) in enumerate(self._judged(workers, self._batches())):
            self.undrawn.meet(state)
            if number >= first:
                self.chosen.offer(state, judged.disk)
        self.clock.pause()

    def _judge_the_rest(self, workers: Workers) -> None:
        """What was named and not drawn: last, so that nothing else depends on what was named."""
        if not (rest := self.undrawn.rest()):
            return
        batches = (rest[at : at + BATCH_MAX] for at in range(0, len(rest), BATCH_MAX))
        for _ in self._judged(workers, batches, named=True):
            pass
        self.clock.pause()

    def _judged(
        self, workers: Workers, batches: Iterator[Batch], *, named: bool = False
    ) -> Iterator[tuple[CrashState, StateJudgement]]:
        """States of the recording, each once it is counted, with what came of it."""
        for worker, batch, answers in workers.answers(batches):
            assert not isinstance(batch, Deepen), "no recovery was asked for"
            self.tally.add_states(worker, answers)
            for state, judged in zip(batch, answers.judged, strict=True):
                same = partial(_same, state)
                self.collected.add(
                    state.policy, judged.findings, same, named=named, repeats=judged.repeats
                )
                self.mapper.add(state, judged.findings)
                yield state, judged
            self._tell("exploring")

    def _cut_again(self, workers: Workers) -> None:
        if not self.wanted.depth and not self.wanted.after:
            return
        self._tell("cutting again", force=True)
        states = [*self.medium.recoveries_first]
        states += self.chosen.drawn() if self.medium.records_recoveries else []
        # In rounds, as a recovery may have fewer states than it may be asked for; what is
        # asked for must not depend on who answers first.
        while states and (round_of := self._round(states)):
            states = states[len(round_of) :]
            for worker, task, answers in workers.answers(self._in_time(round_of)):
                self._add_recoveries(worker, task, answers)
        self.clock.pause()

    def _round(self, states: Sequence[CrashState | None]) -> list[Deepen]:
        """As many recoveries as the budget would have room for if each had all its states."""
        budget, spent = self.wanted.budget, self.tally.checked + self.tally.recoveries.states
        left = None if budget.states is None else budget.states - spent
        whole = left is None or budget.first is not None  # time does not bound a single one
        each = self.per_recovery if whole else max(1, min(self.per_recovery, left or 0))
        count = len(states) if left is None else max(0, -(-left // each))
        begin, self.asked = self.asked, self.asked + len(states[:count])
        return [
            Deepen(state, each, self.wanted.depth, self.wanted.seed + begin + number)
            for number, state in enumerate(states[:count])
        ]

    def _in_time(self, tasks: Sequence[Deepen]) -> Iterator[Deepen]:
        for task in tasks:
            done = self.tally.checked + self.tally.recoveries.states
            if not self.clock.has_time(task.limit, done, self._set_aside):
                return
            yield task

    def _add_recoveries(self, worker: int, task: Deepen, answers: Answers) -> None:
        self.tally.add_recoveries(worker, answers)
        for judged in answers.judged:
            state = judged.again or task.state or NO_STATE
            self.collected.add(
                judged.policy, judged.findings, partial(_same, state), repeats=judged.repeats
            )
        self._tell("cutting again")

    def _batches(self) -> Iterator[Sequence[CrashState]]:
        assert isinstance(self.exploration, Exploration)
        legal = self.medium.space.legal
        states = chain(self._at_cut, self.exploration)
        while not self._is_sure and (size := self.clock.batch(self.tally.checked, self._set_aside)):
            if not (batch := [legal(state) for state in islice(states, size)]):
                return
            yield batch

    @property
    def _is_sure(self) -> bool:
        """It loses, whatever the rest would say of a budget that bounds both states and time."""
        budget = self.wanted.budget
        bound = not budget.whole and budget.states is not None and budget.seconds is not None
        lossy = self.collected.lossy_states
        return bound and ExploreCoverage.makes_certain(self.tally.checked, lossy)

    @property
    def _set_aside(self) -> float:
        """Seconds that the last word on what was found will take, by the recorded guest."""
        if self.medium.last_word is None:
            return 0.0
        return self.collected.kinds_of_loss * self.medium.confirmation_s

    def _tell(self, doing: str, *, force: bool = False) -> None:
        now = time.monotonic()
        if not force and now - self._told < _EVENT_S:
            return
        self._told = now
        self.on_event(
            ExploreProgress(
                self.tally.checked + self.tally.recoveries.states,
                self.collected.lossy_states,
                self.clock.worked,
                self.wanted.budget,
                doing,
            )
        )

    def _compare_with_other_ways(self) -> None:
        saw_all_acks = (
            self.exploration.saw_all_acks
            and InstantKind.ACK in self.wanted.at
            and self.wanted.model is Model.EXACT
        )
        for finding in self.medium.contradictions(self.collected.lost, saw_all_acks=saw_all_acks):
            self.collected.add_general(finding)

    def result(self, seconds: float = 0.0) -> ExploreResult:
        """What was found so far, of which looking at states took so many seconds."""
        medium, wanted = self.medium, self.wanted
        if not self.tally.checked:
            self.collected.add_general(Finding.unknown("no state was checked"))
        save = partial(medium.name, keep=self.keep)
        findings = self.collected.findings(save, medium.last_word)
        cell, engine = medium.recorded_cell, medium.engine
        return ExploreResult(
            powercut=__version__,
            scenario=cell.scenario,
            cell=cell.cell,
            trial=cell.trial,
            engine=engine.name,
            engine_reason=engine.reason,
            engine_kernel=engine.kernel.title if engine.kernel is not None else "",
            model=wanted.model.value,
            atomic_unit=medium.space.unit,
            policies=wanted.policies,
            at=tuple(kind.value for kind in wanted.at),
            budget=str(wanted.budget),
            prune=wanted.prune.value,
            seed=wanted.seed,
            after=wanted.after,
            depth=wanted.depth,
            jobs=1 if self._in_bulk else wanted.jobs,
            seconds=round(seconds, 3),
            seconds_in_all=round(self.clock.taken, 3),
            processor_seconds=round(self.clock.processor_s, 2),
            engine_boots=self.tally.boots,
            coverage=self.tally.coverage(
                self.exploration.coverage(),
                at_cut=self._at_cut,
                space=medium.space,
                lossy=0 if self.collected.doubtful else self.collected.lossy_states,
                not_recorded=self._not_recorded,
            ),
            findings=findings,
            map=self.mapper.result() if self.tally.checked else None,
            verdict=max((found.verdict for found in findings), default=Verdict.SAFE),
        )

    @property
    def _not_recorded(self) -> str:
        """The engine, if second cuts were wanted in recoveries that it cannot record."""
        wanted = bool(self.wanted.after or self.wanted.depth)
        return self.medium.engine.name if wanted and not self.medium.records_recoveries else ""


def _same(state: CrashState) -> CrashState:
    return state


class Tally:
    """States and recoveries so far.

    `checked` counts the states of the recording itself, `compared` those of them that a second
    reader read, too.
    """

    def __init__(self) -> None:
        self.checked = self.compared = 0
        self.recoveries = Recoveries()
        self._pruned = self._rerun = self._same_files = self._went_on = self._no_room = 0
        self._recoveries_lossy = 0
        self._boots: dict[int, int] = {}

    @property
    def boots(self) -> int:
        return sum(self._boots.values())

    def add_states(self, worker: int, answers: Answers) -> None:
        """Adds states of the recording that `worker` has judged."""
        self.checked += len(answers.judged)
        self._pruned += sum(judged.pruned for judged in answers.judged)
        self._rerun += sum(judged.rerun for judged in answers.judged)
        self._same_files += sum(judged.same_files for judged in answers.judged)
        self._add(worker, answers)

    def add_recoveries(self, worker: int, answers: Answers) -> None:
        """Adds recoveries that `worker` has put on record, and the states of them."""
        self.recoveries.add(answers.recoveries)
        self._recoveries_lossy += sum(loses(judged.findings) for judged in answers.judged)
        self._add(worker, answers)

    def _add(self, worker: int, answers: Answers) -> None:
        self._boots[worker] = answers.boots
        self._went_on += sum(judged.went_on for judged in answers.judged)
        self._no_room += sum(judged.no_room for judged in answers.judged)

    def coverage(
        self,
        drawn: Coverage,
        *,
        at_cut: Sequence[CrashState],
        space: StateSpace,
        lossy: int,
        not_recorded: str,
    ) -> ExploreCoverage:
        """All of it, out of what was `drawn` of `space`, after those `at_cut`; in `lossy` states
        something was lost.

        `not_recorded` names the engine if it cannot record recoveries, and second cuts in them
        were wanted.
        """
        drawn = _besides(drawn, at_cut[: self.checked], space)
        return ExploreCoverage(
            instants=drawn.instants,
            instants_all=drawn.instants_all,
            legal_log2=round(drawn.legal_log2, 2),
            distinct=self.checked,
            recovered=self.checked - self._pruned + self._rerun,
            pruned=self._pruned,
            pruned_rerun=self._rerun,
            same_files=self._same_files,
            repeated=drawn.duplicates,
            by_policy=drawn.by_policy,
            lossy=lossy,
            compared=self.compared,
            went_on=self._went_on,
            no_room=self._no_room,
            recoveries=self.recoveries.recorded,
            recoveries_live=self.recoveries.live,
            recoveries_unrecorded=self.recoveries.unrecorded,
            recovery_states=self.recoveries.states,
            recovery_lossy=self._recoveries_lossy,
            recovery_states_ended=self.recoveries.ended,
            recovery_depth=self.recoveries.deepest,
            recovery_log2=round(log2_sum(self.recoveries.legal_log2), 2),
            exhausted=drawn.exhausted,
            groups=groups_of(drawn),
            at_acks=acks_of(drawn, space.claims),
            not_looked_at="; ".join(_not_looked_at(drawn, not_recorded)) or "nothing",
        )


def _besides(drawn: Coverage, states: Sequence[CrashState], space: StateSpace) -> Coverage:
    """With `states` that came first, none of them at an instant of the others."""
    if not states:
        return drawn
    instants = {state.instant for state in states}
    by_policy = Counter(state.policy for state in states)
    by_policy.update(drawn.by_policy)
    legal = [drawn.legal_log2] if drawn.instants else []
    return replace(
        drawn,
        instants=drawn.instants + len(instants),
        instants_all=drawn.instants_all + len(instants),
        legal_log2=log2_sum([*legal, *(space.legal_log2(at) for at in instants)]),
        distinct=drawn.distinct + len(states),
        by_policy=dict(by_policy),
    )


def groups_of(drawn: Coverage) -> StateGroups | None:
    """The groups that were seen, to be kept; None if states were not selected by groups."""
    if drawn.groups is None:
        return None
    groups = drawn.groups
    return StateGroups(seen=groups.seen, groups=groups.all, stages=groups.stages)


def acks_of(drawn: Coverage, claims: Requirements | None) -> StatesAtAcks | None:
    """What was looked at just after acks, to be kept; None if no ack promises anything."""
    if isinstance(claims, OperationHistory) and claims.keeps != "every":
        return None
    return StatesAtAcks.of(drawn.acks) if drawn.acks is not None and drawn.acks.all else None


def _not_looked_at(drawn: Coverage, not_recorded: str) -> Iterator[str]:
    if drawn.instants < drawn.instants_all:
        yield f"{drawn.instants_all - drawn.instants} of {drawn.instants_all} instants"
    legal = 2.0 ** min(drawn.legal_log2, 1000)
    if legal > drawn.distinct + drawn.duplicates + 0.5:
        yield f"all but {drawn.distinct} of 2^{drawn.legal_log2:.1f} legal states"
    elif legal > drawn.distinct + 0.5:
        # Repetitions are the same state at another instant, or drawn twice: nobody knows.
        yield (
            f"perhaps some of 2^{drawn.legal_log2:.1f} legal states, which count at each "
            f"instant; {drawn.distinct} distinct ones were checked"
        )
    if not drawn.exhausted:
        yield "some states of the policies that end"
    if not_recorded:
        yield f"second cuts in recoveries of states, which engine {not_recorded} cannot record"
