# SPDX-License-Identifier: Apache-2.0
"""Counts what an exploration has checked, and says what it has not looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from powercut.checkers.repetition import loses
from powercut.crash.explore import Coverage
from powercut.crash.states import CrashState, StateSpace
from powercut.explore.work import Answers, Recoveries
from powercut.model.log2 import log2_sum
from powercut.store.exploration import ExploreCoverage, StateGroups
from powercut.store.states_recovered import StatesAtAcks


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
        """How often the engines' kernels were started."""
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
            at_acks=acks_of(drawn),
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


def acks_of(drawn: Coverage) -> StatesAtAcks | None:
    """What was looked at just after acks, to be kept; None if nothing was acknowledged."""
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
