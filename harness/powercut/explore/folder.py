# SPDX-License-Identifier: Apache-2.0
"""Captured folders as the explorer sees them: states are folders, which the user's command checks.

First come what a cut at the end leaves at least, and everything that was issued; then the states of
the one order.  Those before the program was `ready`, or without that word before its first attempt,
are not looked at: nothing was promised.

The control is the same recording on a host that ignores every sync: of all that was
acknowledged the check must miss something there.  No SAFE without it.
"""

from __future__ import annotations

import random
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Final, Protocol

from powercut.checkers.repetition import ASKED, loses, repeated
from powercut.crash.arrays import I64
from powercut.crash.explore import InstantKind, events
from powercut.crash.folder import FolderSpace, Tree
from powercut.crash.folder_rows import Promise
from powercut.crash.kinds import Names
from powercut.crash.order import ALL_POLICIES, Selection
from powercut.crash.states import Again, CrashState, StateSpace
from powercut.explore.confirmation import LastWord
from powercut.explore.depth import SecondCuts, StateCount
from powercut.explore.explorer import ExplorerRun
from powercut.explore.folder_judge import Answer, Check, FolderJudge, Known
from powercut.explore.medium import RecordedCell
from powercut.explore.request import PER_POLICY, ExploreRequest, Listener
from powercut.explore.work import Answered, Answers, Batch, Deepen, StateJudgement, Workers
from powercut.model.machine_identity import Boot
from powercut.model.units import count
from powercut.model.verdict import Finding
from powercut.recording.folder import FolderRecording, build_tree, fingerprint, remove_tree
from powercut.recording.state_names import save_state, state_name
from powercut.rig.engine_choice import EngineChoice
from powercut.rig.folder_check import RecordedCheck
from powercut.store.folder import FolderSeen
from powercut.workload.port import NOTHING_LATER, LaterClaims
from powercut.workload.program.check import doubts_before
from powercut.workload.program.claims import sighting_of

SCENARIO: Final = "capture"
ENGINE: Final = "check"


def look_at_folder(
    recording: FolderRecording,
    wanted: ExploreRequest,
    check: Check,
    scratch: Path,
    on_event: Listener = lambda _: None,
    *,
    keep: bool = False,
    record: RecordCheck | None = None,
    known: Known | None = None,
) -> FolderSeen:
    """Looks at states until the budget is used up; at none of a recording that its host has
    damaged, or whose check cannot be believed.

    `record` is for second cuts; nothing is checked that is `known`.  With `keep` the states that
    its findings tell of are kept beside the recording.  Raises HostError.
    """
    with FolderJudge(recording, check, scratch, jobs=wanted.jobs, known=known) as judge:
        cuts = None if record is None else FolderCuts(judge, recording.promise, record, scratch)
        medium = FolderMedium(recording, judge, cuts)
        run = ExplorerRun(medium, wanted, on_event, keep=keep)
        if recording.doubts:
            return FolderSeen(run.result())
        positive = judge.positive()
        if doubts := _doubts_of_check(recording, judge):
            return FolderSeen(run.result(), doubts)
        control = _control(recording, judge) if positive.believed else None
        explored = run.explore() if positive.believed else run.result()
        return FolderSeen(explored, (), control, positive, judge.reads)


class FolderMedium:
    """One captured folder under one promise."""

    def __init__(
        self, recording: FolderRecording, judge: FolderJudge, cuts: FolderCuts | None = None
    ) -> None:
        self._recording = recording
        self._judge = judge
        self._cuts = cuts
        self.recorded_cell = RecordedCell(SCENARIO, recording.title, 1)
        self.engine = EngineChoice(ENGINE)
        self.space: StateSpace = judge.space
        self.gaps: Sequence[str] = ()  # the verdict tells them, even if no state was looked at
        self.names: Names | None = None
        self.last_word: LastWord | None = judge
        self.confirmation_s = 0.0
        self.at_cut: Sequence[CrashState] = recording.at_cut
        self.records_recoveries = cuts is not None
        self.recoveries_first: Sequence[CrashState | None] = self.at_cut if cuts else ()

    def instants(self, kinds: Sequence[InstantKind]) -> I64:
        return self._recording.instants(kinds)

    def bulk(self, *_: object) -> None:
        """None: each is judged alone."""

    def possible(self, wanted: ExploreRequest) -> tuple[ExploreRequest, Sequence[Finding]]:
        return wanted, ()

    @contextmanager
    def workers(self, wanted: ExploreRequest) -> Iterator[Workers]:
        del wanted
        yield FolderWorkers(self._judge, self._cuts)

    def name(self, state: CrashState, *, keep: bool) -> str:
        """The name of a state, which is kept if it is to; none after a second cut."""
        if state.again is not None:
            return ""
        return (save_state if keep else state_name)(self._recording, state)

    def contradictions(self, *_: object, **__: object) -> Sequence[Finding]:
        return ()


class FolderWorkers:
    """Checks batches of states, while the next batch is asked for."""

    def __init__(self, judge: FolderJudge, cuts: FolderCuts | None) -> None:
        self._judge = judge
        self._cuts = cuts

    def answers(self, batches: Iterator[Batch]) -> Iterator[Answered]:
        """As powercut.explore.work.Workers.  Raises HostError, DamagedRecording."""
        asked: deque[tuple[Batch, list[Answer]]] = deque()
        for batch in batches:
            if isinstance(batch, Deepen):
                yield 0, batch, self._deepened(batch)
                continue
            asked.append((batch, [self._judge.ask(state) for state in batch]))
            if len(asked) >= self._judge.jobs:
                yield _settled(asked)
        while asked:
            yield _settled(asked)

    def _deepened(self, task: Deepen) -> Answers:
        assert self._cuts is not None, "nobody records checks"
        assert task.state is not None, "no recovery of a cut is live"
        cuts = SecondCuts(self._cuts, task)
        cuts.follow(task.state)
        return Answers(tuple(cuts.judged), 0, cuts.count)


def _settled(asked: deque[tuple[Batch, list[Answer]]]) -> Answered:
    batch, answers = asked.popleft()
    return 0, batch, Answers(tuple(answer() for answer in answers), 0)


def _doubts_of_check(recording: FolderRecording, judge: FolderJudge) -> tuple[str, ...]:
    """What is wrong with what the check says of the folder as the program found it."""
    begin = recording.start_ns
    start = CrashState(begin, tuple(judge.space.volatile(begin).tolist()))
    seen = sighting_of(judge.observe(judge.space, start))
    where, of = "in the folder before any was tried", "the folder at first"
    return tuple(doubts_before(seen, where=where, of=of))


def _control(recording: FolderRecording, judge: FolderJudge) -> tuple[Finding, ...]:
    """What the check misses on a host that ignores every sync, promised or not."""
    space, every = recording.lying_space, replace(recording.history, keeps="every")
    state = CrashState(recording.record.cut_ns, ())
    return tuple(judge.findings(state, judge.observe(space, state), every))


# Second cuts of a captured folder: the power fails again while the check recovers.
#
# The check of a state is put on record.  Every folder that a cut could have left of that is legal
# for the folder that the check began with, and must give back what was required at the first cut: a
# check promises nothing.  Which checks are cut, and how deep, powercut.explore.depth says.  What
# loses something is made and checked as often as what convicts (powercut.checkers.repetition).


class RecordCheck(Protocol):
    """Runs the check of the folder `state` on record, into the new files LOG.log and LOG.data."""

    def __call__(self, state: Path, log: Path, boot: Boot) -> RecordedCheck:
        """Raises HostError, DamagedRecording."""


@dataclass(frozen=True)
class CheckOnRecord:
    """A check on record: the states of it, from its begin to its end on the clock of its log.

    It is the `number`th of those that were cut one after the other; `before` says where the others
    were.
    """

    space: FolderSpace
    begin: int
    end: int
    number: int
    before: str
    doubts: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class SecondFolder:
    """A folder that a cut during a check may have left; `what` says where that cut was."""

    record: CheckOnRecord
    tree: Tree
    state: CrashState
    what: str
    later: LaterClaims = NOTHING_LATER


class FolderCuts:
    """Cuts checks of one recording."""

    def __init__(
        self, judge: FolderJudge, promise: Promise, record: RecordCheck, scratch: Path
    ) -> None:
        self._judge = judge
        self._promise = promise
        self._record = record
        self._scratch = scratch

    def record(self, first: CrashState, second: SecondFolder | None) -> CheckOnRecord | None:
        """The check on record; None if it loses something without a cut, which is told elsewhere.

        Raises HostError, DamagedRecording.
        """
        if second is None:
            space, number, before = self._judge.space, 1, ""
            tree = space.tree(first)
        else:
            space, tree = second.record.space, second.tree
            number, before = second.record.number + 1, f"{second.what}, then "
        check = self._on_record(space, tree, number - 1)
        timeline = check.timeline
        end = timeline.cut_ns
        if end is None or loses(self._judge.findings(first, check.observation)):
            return None
        after = FolderSpace(timeline, self._promise)
        return CheckOnRecord(after, int(timeline.begin_ns), int(end), number, before)

    def states_of(
        self, record: CheckOnRecord, limit: int, seed: str, drawn: Callable[[StateCount], None]
    ) -> Iterator[SecondFolder]:
        """Those of the end, then by the one order; none if the check changed nothing."""
        space, begin, end = record.space, record.begin, record.end
        if not any(row.request.submitted_ns > begin for row in space.rows):
            return
        instants = events(space, list(InstantKind))
        instants = instants[(instants > begin) & (instants <= end)]
        number = random.Random(f"{seed}/instants").getrandbits(32)
        order = Selection(ALL_POLICIES, seed=number, per_policy=PER_POLICY).of(space, instants)
        at_end = (
            CrashState(end, (), policy="durable-only"),
            CrashState(end, tuple(space.volatile(end).tolist()), policy="everything-issued"),
        )
        seen: set[bytes] = set()
        for one in islice(chain(at_end, order), limit):
            state = space.legal(one)
            tree = space.tree(state)
            if (name := fingerprint(tree)) in seen:
                continue
            seen.add(name)
            yield SecondFolder(record, tree, state, _where(record, state))
        coverage = order.coverage()
        drawn(StateCount(coverage.legal_log2, coverage.instants, len(instants)))

    def judge_second(self, first: CrashState, second: SecondFolder) -> StateJudgement:
        """What is wrong with it; what loses something is looked at as often as what convicts."""

        def look() -> list[Finding]:
            record = second.record
            seen = self._judge.checked(record.space, second.tree, level=record.number)
            return self._judge.findings(first, seen)

        found, repeats = repeated(look(), look, looks=ASKED)
        findings = tuple(
            replace(one, message=f"after a cut {second.what}: {one.message}") for one in found
        )
        policy = f"recovery/{second.state.policy}"
        again = self.beneath(first, second)
        return StateJudgement(findings, again=again, policy=policy, repeats=repeats)

    def beneath(self, first: CrashState, second: SecondFolder) -> CrashState:
        """`first`, of which nothing is kept: the records that it rests on are not."""
        return replace(first, again=Again(()), policy=f"recovery/{second.state.policy}")

    def _on_record(self, space: FolderSpace, tree: Tree, level: int) -> RecordedCheck:
        folder = Path(tempfile.mkdtemp(prefix="check-", dir=self._scratch))
        target = folder / "state"
        target.mkdir(mode=0o755)
        try:
            build_tree(space, tree, target)
            return self._record(target, folder / "log", self._judge.boot_for(tree, level))
        finally:
            remove_tree(folder)  # the log's payload stays mapped


def _where(record: CheckOnRecord, state: CrashState) -> str:
    lacking = len(record.space.volatile(state.instant)) - len(state.survivors)
    return (
        f"{record.before}{(state.instant - record.begin) / 1e6:.3f} ms into check {record.number} "
        f"({state.policy}, {count(lacking, 'change')} missing)"
    )
