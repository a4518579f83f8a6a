# SPDX-License-Identifier: Apache-2.0
"""Second cuts of a captured folder: the power fails again while the check recovers.

The check of a state is put on record.  Every folder that a cut could have left of that is legal for
the folder that the check began with, and must give back what was required at the first cut: a check
promises nothing.  Which checks are cut, and how deep, powercut.explore.depth says.  What loses
something is made and checked as often as what convicts (powercut.checkers.repetition).
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Protocol

from powercut.checkers.repetition import ASKED, loses, repeated
from powercut.crash.explore import InstantKind, events
from powercut.crash.folder import FolderSpace, Tree
from powercut.crash.folder_rows import Promise
from powercut.crash.order import ALL_POLICIES
from powercut.crash.selection import Selection
from powercut.crash.states import Again, CrashState
from powercut.explore.depth import StateCount
from powercut.explore.folder_judge import FolderJudge
from powercut.explore.request import PER_POLICY
from powercut.explore.work import StateJudgement
from powercut.model.machine_identity import Boot
from powercut.model.units import count
from powercut.model.verdict import Finding
from powercut.recording.folder import build_tree, fingerprint, remove_tree
from powercut.rig.folder_check import RecordedCheck
from powercut.workload.port import NOTHING_LATER, LaterClaims


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
