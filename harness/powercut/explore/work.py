# SPDX-License-Identifier: Apache-2.0
"""What is asked of a worker of an exploration, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from powercut.checkers.repetition import NOT_ASKED, Repeats
from powercut.crash.order import ALL_POLICIES
from powercut.crash.states import CrashState, Model
from powercut.explore.request import Prune
from powercut.model.verdict import Finding
from powercut.recording.disk import DiskRecording
from powercut.recover.uml.kernel import UmlKernel
from powercut.store.trial_dir import TrialDir


@dataclass(frozen=True)
class Work:
    """What a worker needs to know; small enough to be sent to another process.

    `after` is the number of records by which the workload goes on after each recovery, `depth`
    how many cuts may follow each other.  `policies` and `model` draw the states of recoveries;
    `kernel` is what `uml` recovers with.  `by_batch`: each batch is judged as if it were the first,
    so that what comes of it does not depend on what the worker did before.  `opens` opens what is
    no trial.
    """

    trial: Path
    run: Path
    engine: str
    prune: Prune
    seed: int
    after: int = 0
    depth: int = 0
    policies: tuple[str, ...] = ALL_POLICIES
    model: Model = Model.EXACT
    kernel: UmlKernel | None = None
    by_batch: bool = False
    opens: Callable[[TrialDir], DiskRecording] | None = None


@dataclass(frozen=True)
class Deepen:
    """The recovery of `state` is to be put on record, and up to `limit` states of it checked.

    None means the live recovery of the recording.  States of those states' recoveries are
    checked to `depth`, which counts from 1.
    """

    state: CrashState | None
    limit: int
    depth: int
    seed: int


Batch = Sequence[CrashState] | Deepen


@dataclass(frozen=True)
class StateJudgement:
    """What came of one state.  `pruned`: an equal state had decided it.

    `again` is the state itself if a second cut has made it, and `findings` are to be kept;
    else the batch has it.  `went_on` says that the workload went on after its recovery,
    `no_room` that there was none for it to.  `disk` is a digest of the state's bytes, empty if
    nobody wanted one.  `same_files`: it was recovered, and its files were those of an earlier
    state, whose check holds for it.  `repeats` says how often it was asked again for what it loses.
    """

    findings: tuple[Finding, ...]
    pruned: bool = False
    rerun: bool = False
    same_files: bool = False
    again: CrashState | None = None
    policy: str = ""
    went_on: bool = False
    no_room: bool = False
    disk: bytes = b""
    repeats: Repeats = NOT_ASKED


@dataclass
class Recoveries:
    """What was done about recoveries on record; adds up."""

    recorded: int = 0
    live: int = 0
    unrecorded: int = 0
    states: int = 0
    ended: int = 0
    deepest: int = 0
    legal_log2: list[float] = field(default_factory=list)

    def add(self, other: Recoveries) -> None:
        """Adds `other` to this."""
        self.recorded += other.recorded
        self.live += other.live
        self.unrecorded += other.unrecorded
        self.states += other.states
        self.ended += other.ended
        self.deepest = max(self.deepest, other.deepest)
        self.legal_log2 += other.legal_log2


@dataclass(frozen=True)
class Answers:
    """What came of one batch; `boots` counts the engine's kernels since its beginning."""

    judged: tuple[StateJudgement, ...]
    boots: int
    recoveries: Recoveries = field(default_factory=Recoveries)


Answered = tuple[int, Any, Answers]
"""Number of the worker, batch, answers."""


class Workers(Protocol):
    """Judges batches of states."""

    def answers(self, batches: Iterator[Batch]) -> Iterator[Answered]:
        """Each batch with its answers, in the order of batches; a cluster joins them anew."""


Spread = Callable[[Work], Workers]
"""Gives the workers of a cluster."""
