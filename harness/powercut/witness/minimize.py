# SPDX-License-Identifier: Apache-2.0
"""The witness: the smallest loss of writes that still loses a record, and its explanation.

The search starts from a crash state that loses something.  Relative to everything
issued before the cut, it lacks volatile writes, whole or in part, and may have others out
of order: these are the items.  ddmin removes items as long as recovery still loses one of
the same records in the same way; then each write that is left is reduced to the atomic
units that matter.  States that the contract does not permit count as harmless, so the
witness is a state that the contract permits.

Every state is really recovered and checked.  Nothing is random; so the same recording
and the same state give the same witness.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from powercut.checkers.judge import confirms
from powercut.checkers.repetition import ASKED
from powercut.crash.exposure import exposure
from powercut.crash.states import CrashState
from powercut.explore.clock import Clock, confirmation_s
from powercut.explore.confirmation import asked_again
from powercut.explore.request import Budget
from powercut.explore.state_judge import (
    Judgement,
    StateJudge,
    judge_in_guest,
    open_judge,
    require_recorded_kernel,
)
from powercut.model.errors import PowercutError
from powercut.model.verdict import Confirmed, LsnRange, Verdict, lsn_ranges
from powercut.model.versions import HOST
from powercut.recording.disk import DiskRecording
from powercut.rig.engines import boots_recorded_kernel, reader_alone
from powercut.store.exploration import read_exploration
from powercut.store.witness import Witness
from powercut.witness.later_step import later_step
from powercut.witness.search import (
    Progress,
    SearchLimit,
    document,
    first_loss,
    nothing_told,
    smallest_loss,
)
from powercut.witness.story import cause_of, dropped_writes, events_of
from powercut.workload.port import Recognised

BUDGET = Budget(states=2000)
"""What a search may take."""


def minimize(
    recording: DiskRecording,
    state_name: str | None = None,
    *,
    lsn: int | None = None,
    budget: Budget = BUDGET,
    confirm: bool = False,
    begun: float | None = None,
    engine: str = "auto",
    kernel: str = HOST,
    progress: Progress = nothing_told,
) -> Witness:
    """The witness of a loss in `recording`; keeps its state beside the recording.

    Without a state the search begins at one that is known to lose something: the live cut,
    what an exploration found, or what the exposure analysis names.  With `lsn` that record
    must stay lost, else any one of those lost at the beginning.  `engine` recovers the states, and
    `kernel` is its User-Mode Linux: the host's, or that of a Debian suite.
    `confirm` also recovers the witness with the recorded kernel, in a guest; the check of a
    program is asked as often as what convicts.  A budget of time runs
    from `begun` (time.monotonic), by default from now, and includes start and confirmation.

    Raises UsageError if nothing is lost, and HostError if no engine can recover a state.
    """
    clock = Clock(budget, budget, 1, begun=begun)
    with open_judge(recording, engine, kernel=kernel) as judge:
        clock.work()
        first = first_loss(recording, judge, state_name, _candidates(recording))
        limit = SearchLimit(budget, clock, _set_aside(recording, judge.choice.name, confirm))
        found = smallest_loss(recording.space, judge, first, lsn, limit, progress)
        smallest, instant, judgement = found.state, found.state.instant, found.judgement
        settled = _asked_again(recording, judge, smallest, judgement)
        parts = [(drop.write, drop.begin, drop.end) for drop in found.drops]
        dropped = dropped_writes(recording, instant, parts)
        later = later_step(recording, judge, smallest, dropped, found.told)
    word = settled or _confirmed(recording, smallest, judgement, judge.choice.name, confirm)
    moved = len(found.items) - len(found.drops)
    return document(
        recording,
        found,
        unit=recording.noun,
        dropped=dropped,
        engine=judge.choice.name,
        engine_reason=judge.choice.reason,
        confirmed=word[0],
        confirmation=word[1],
        events=events_of(recording, instant, dropped, found.told),
        cause=cause_of(recording, instant, dropped, moved, found.told, later),
    )


def _set_aside(recording: DiskRecording, engine: str, confirm: bool) -> float:
    """Seconds that confirmation will take, where it boots a guest."""
    settled = recording.known_promises is not None or recording.imported
    if not confirm or settled or reader_alone(engine) or boots_recorded_kernel(engine):
        return 0.0
    return confirmation_s(recording.directory.read_record().timings_s)


def _asked_again(
    recording: DiskRecording, judge: StateJudge, state: CrashState, judgement: Judgement
) -> tuple[Confirmed, str] | None:
    """Whether a program's check loses the same each time; None of another workload.  Nothing more
    is to be asked then: it was recovered in what it was recorded in.
    """
    if recording.known_promises is None:
        return None
    if not judgement.lossy:
        return "no", judgement.message
    heard = asked_again(lambda: judge.judge(state), judgement.lossy, looks=ASKED - 1)
    return heard.confirmed, "" if heard.confirmed == "yes" else f"asked again: {heard.said}"


def _confirmed(
    recording: DiskRecording, state: CrashState, judgement: Judgement, engine: str, wanted: bool
) -> tuple[Confirmed, str]:
    """Whether the recorded kernel agrees.  A raw log is read by the reader of the guest."""
    if not wanted or recording.imported:
        return "not tried", "the guest of this log is not known" if wanted else ""
    if reader_alone(engine):
        return "yes", ""
    try:
        if boots_recorded_kernel(engine):  # it has just done so, if that is the kernel it has
            require_recorded_kernel(recording, engine)
            return "yes", ""
        seen = judge_in_guest(recording, state)
    except PowercutError as error:
        return "not tried", str(error)
    told = confirms(seen.findings, judgement.findings)
    return told, "" if told == "yes" else seen.message or "everything came back"


def _candidates(recording: DiskRecording) -> Iterator[str]:
    if recording.timeline.cut is not None:
        yield "cut"
    explored = read_exploration(recording.directory)
    for finding in explored.findings if explored else ():
        if finding.verdict is Verdict.LOSSY:
            yield finding.examples[0].id
    if (first := _first_exposed(recording)) is not None:
        yield f"ack:{first.first}"


def _first_exposed(recording: DiskRecording) -> LsnRange | None:
    if not isinstance(recording.promises, Recognised):
        return None
    report = exposure(recording.evidence)
    ranges = lsn_ranges(np.asarray(report.lsn[report.exposed]).tolist())
    return ranges[0] if ranges else None
