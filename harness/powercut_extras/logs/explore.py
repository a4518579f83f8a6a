# SPDX-License-Identifier: Apache-2.0
"""Crash states of an imported log, under both of its readings.

States are those of the models `epoch` and `prefix`; `exact` needs to know which writes
were in flight, and no such log says so (docs/formats/dm-log-writes.md).  What follows:

1. a state of the certain reading loses something, and the log has no doubts: LOSSY;
2. no state of the cautious reading loses anything, all of them were checked, and the log
   is whole and without doubts: SAFE, as far as the model goes;
3. everything else: INCONCLUSIVE.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from powercut.crash.explore import Coverage, Exploration, InstantKind, events
from powercut.crash.states import CrashState, Model
from powercut.explore.state_judge import StateJudge, open_judge
from powercut.model.errors import UsageError
from powercut.model.verdict import LsnRange, Verdict, lsn_ranges
from powercut.model.versions import HOST
from powercut.recording import state_ref
from powercut.recording.disk import DiskRecording
from powercut.rig.engine_choice import EngineChoice
from powercut.store.trial_dir import TrialDir
from powercut_extras.logs.imports import open_import

MODELS: Final = (Model.EPOCH, Model.PREFIX)

Progress = Callable[[str, int], None]
"""Told after each state: the reading, and how many of its states were checked."""


@dataclass(frozen=True)
class ReadingResult:
    """What the states of one reading came to.

    `first` is the name of the first state that loses something, kept beside the
    recording; empty if there is none.  `unknown` counts states that could not be judged;
    `engine` recovered them.
    """

    coverage: Coverage
    lossy: int
    unknown: int
    lost: tuple[LsnRange, ...]
    first: str
    engine: EngineChoice


@dataclass(frozen=True)
class ImportExploration:
    """Both readings, and the verdict with its reasons."""

    certain: ReadingResult
    cautious: ReadingResult
    verdict: Verdict
    reasons: tuple[str, ...]


def explore_import(
    directory: TrialDir,
    *,
    model: Model = Model.EPOCH,
    limit: int | None = None,
    seconds: float | None = None,
    engine: str = "auto",
    kernel: str = HOST,
    progress: Progress = lambda _reading, _states: None,
) -> ImportExploration:
    """Checks the states of the log in `directory`; `limit` and `seconds` are per reading.

    Raises UsageError for a model that such a log cannot carry, or without a word on how the
    records lie.
    """
    if model not in MODELS:
        raise UsageError(
            f"model {model.value} is not meaningful for an imported log",
            hint="no such log says which writes were in flight; choose epoch or prefix",
        )
    results = []
    for cautious in (False, True):
        recording = open_import(directory, cautious=cautious)
        name = "cautious" if cautious else "certain"
        judge = open_judge(recording, engine, kernel=kernel)
        told = partial(progress, name)
        results.append(_explore(recording, judge, model, limit, seconds, told))
    certain, careful = results
    verdict, reasons = _verdict(certain, careful, open_import(directory))
    return ImportExploration(certain, careful, verdict, reasons)


def _explore(
    recording: DiskRecording,
    judge: StateJudge,
    model: Model,
    limit: int | None,
    seconds: float | None,
    progress: Callable[[int], None],
) -> ReadingResult:
    instants = events(recording.space, list(InstantKind))
    exploration = Exploration(recording.space, instants, model=model, limit=limit)
    end = None if seconds is None else time.monotonic() + seconds
    lossy: list[CrashState] = []
    lost: set[int] = set()
    checked = unknown = 0
    stopped = False
    with judge:
        for state in exploration:
            if end is not None and time.monotonic() >= end:
                stopped = True
                break
            judgement = judge.judge(state)
            checked += 1
            if judgement.verdict is Verdict.LOSSY:
                lossy.append(state)
                lost |= judgement.lsns
            elif judgement.verdict is Verdict.INCONCLUSIVE:
                unknown += 1
            progress(checked)
    coverage = exploration.coverage()
    if stopped:  # the state at which the time was over was drawn and not checked
        coverage = replace(coverage, distinct=checked, exhausted=False)
    first = state_ref.save(recording.directory, lossy[0]) if lossy else ""
    return ReadingResult(coverage, len(lossy), unknown, lsn_ranges(lost), first, judge.choice)


def _verdict(
    certain: ReadingResult, cautious: ReadingResult, recording: DiskRecording
) -> tuple[Verdict, tuple[str, ...]]:
    """The rules at the head of this file."""
    gaps: list[str] = list(recording.gaps)
    if certain.lossy and not recording.doubts:
        return Verdict.LOSSY, (f"{certain.lossy} states that were legal for certain lose records",)
    if certain.lossy:
        gaps.append("states lose records, but the log has doubts")
    elif cautious.lossy:
        gaps.append("states lose records that may not have been legal")
    if not recording.history.acked:
        gaps.append("nothing was acknowledged: the log has no mark `ack N`")
    if not (cautious.coverage.exhausted and certain.coverage.exhausted):
        gaps.append("not every state was checked")
    if cautious.unknown or certain.unknown:
        gaps.append(f"{cautious.unknown + certain.unknown} states could not be judged")
    if not len(recording.evidence.runs) and recording.history.acked:
        gaps.append("no record of this run is in the log: run id or layout may be wrong")
    return (Verdict.INCONCLUSIVE if gaps else Verdict.SAFE), tuple(gaps)
