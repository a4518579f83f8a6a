# SPDX-License-Identifier: Apache-2.0
"""Second cuts of a captured folder: the power fails again while the check recovers.

The check of a state is put on record.  Every folder that a cut could have left of that is legal for
the folder that the check began with, and must give back what was required at the first cut: a check
promises nothing.  The checks of some of those folders are put on record again, to the depth that
was asked for.  What loses something is made and checked a second time.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from powercut.checkers.repetition import loses, repeated
from powercut.crash.folder import FolderSpace, Tree
from powercut.crash.folder_rows import Promise
from powercut.crash.states import CrashState
from powercut.explore.folder_judge import FolderJudge
from powercut.explore.request import Budget
from powercut.explore.state_order import StateOrder
from powercut.model.units import count
from powercut.model.verdict import Finding
from powercut.recording.folder import build_tree, fingerprint, remove_tree
from powercut.rig.folder_check import RecordedCheck

PER_CHECK: Final = 16
"""States that are drawn of one recorded check."""

DEEPER: Final = 2
"""Of these, so many have their check recorded, if that is deep enough."""


class RecordCheck(Protocol):
    """Runs the check of the folder `state` on record, into the new files LOG.log and LOG.data."""

    def __call__(self, state: Path, log: Path) -> RecordedCheck:
        """Raises HostError, DamagedRecording."""


@dataclass(frozen=True)
class SecondState:
    """A folder that a cut during a check may have left, and what is wrong with it.

    `depth` is the number of cuts during checks that led to it; `what` says where they were.
    """

    depth: int
    what: str
    findings: tuple[Finding, ...]


class SecondCuts:
    """Cuts the checks of states of one recording; `recorded` counts those on record."""

    def __init__(
        self,
        judge: FolderJudge,
        promise: Promise,
        record: RecordCheck,
        scratch: Path,
        *,
        seed: int,
        deeper: int = DEEPER,
    ) -> None:
        self.recorded = 0
        self._judge = judge
        self._promise = promise
        self._record = record
        self._scratch = scratch
        self._seed = seed
        self._deeper = deeper

    def follow(self, state: CrashState, depth: int) -> Iterator[SecondState]:
        """The folders that up to `depth` cuts during checks may leave of `state`.

        Raises HostError, DamagedRecording.
        """
        space = self._judge.space
        yield from self._cut(space, space.tree(state), state, depth, 1, "")

    def _cut(
        self,
        space: FolderSpace,
        tree: Tree,
        first: CrashState,
        depth: int,
        number: int,
        before: str,
    ) -> Iterator[SecondState]:
        check = self._on_record(space, tree)
        timeline = check.timeline
        begin, end = int(timeline.begin_ns), timeline.cut_ns
        if end is None or loses(self._judge.findings(first, check.observation)):
            return  # what a check finds without a cut is told elsewhere
        after = FolderSpace(timeline, self._promise)
        sound: list[tuple[Tree, str]] = []
        seen: set[bytes] = set()
        for state in _states(after, begin, int(end), self._seed + self.recorded):
            there = after.tree(state)
            if (name := fingerprint(there)) in seen:
                continue
            seen.add(name)
            lacking = len(after.volatile(state.instant)) - len(state.survivors)
            what = f"{before}{(state.instant - begin) / 1e6:.3f} ms into check {number}"
            what += f" ({state.policy}, {count(lacking, 'change')} missing)"
            findings = self._findings(after, there, first)
            if not loses(findings):
                sound.append((there, f"{what}, then "))
            yield SecondState(number, what, tuple(findings))
        if depth > 1:
            chosen = random.Random(self._seed).sample(sound, min(self._deeper, len(sound)))
            for there, told in chosen:
                yield from self._cut(after, there, first, depth - 1, number + 1, told)

    def _findings(self, space: FolderSpace, tree: Tree, first: CrashState) -> list[Finding]:
        def look() -> list[Finding]:
            return self._judge.findings(first, self._judge.checked(space, tree))

        return [*repeated(look(), look)]

    def _on_record(self, space: FolderSpace, tree: Tree) -> RecordedCheck:
        self.recorded += 1
        folder = Path(tempfile.mkdtemp(prefix="check-", dir=self._scratch))
        target = folder / "state"
        target.mkdir(mode=0o755)
        try:
            build_tree(space, tree, target)
            return self._record(target, folder / "log")
        finally:
            remove_tree(folder)  # the log's payload stays mapped


def _states(space: FolderSpace, begin: int, end: int, seed: int) -> list[CrashState]:
    """The states to look at of one check; none if it changed nothing."""
    if not any(row.request.submitted_ns > begin for row in space.rows):
        return []
    at_end = (
        CrashState(end, (), policy="durable-only"),
        CrashState(end, tuple(space.volatile(end).tolist()), policy="everything-issued"),
    )
    found: list[CrashState] = []
    look: Callable[[CrashState], None] = found.append
    StateOrder(space, at_end, seed=seed, between=(begin, end)).walk(Budget(states=PER_CHECK), look)
    return [space.legal(state) for state in found]
