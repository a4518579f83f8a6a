# SPDX-License-Identifier: Apache-2.0
"""The witness of a captured folder: the fewest lost writes that still lose something, by file.

The search is that of disks (powercut.witness.search); a state is made, checked by the user's
command, and, if it loses something, made and checked again.
"""

from __future__ import annotations

from collections.abc import Sequence

from powercut import __version__
from powercut.crash.folder_rows import Promise
from powercut.crash.states import CrashState
from powercut.explore.clock import Clock
from powercut.explore.folder_judge import FolderJudge
from powercut.explore.request import Budget
from powercut.explore.state_judge import Judgement
from powercut.model.errors import UsageError
from powercut.model.verdict import LsnRange, Verdict
from powercut.recording.folder import CaptureRecording
from powercut.recording.folder_state import (
    resolve_folder_state,
    save_state,
    value_of,
)
from powercut.store.folder_witness import FolderWitness
from powercut.witness.folder_cause import cause_of
from powercut.witness.folder_story import FolderStory
from powercut.witness.search import (
    Drop,
    Item,
    Progress,
    SearchLimit,
    WitnessSearch,
    items_of,
    nothing_told,
    state_of,
)

_NAMED_MAX = 3


def minimize_folder(
    recording: CaptureRecording,
    judge: FolderJudge,
    promise: Promise,
    state_name: str | None = None,
    *,
    operation: int | None = None,
    budget: Budget,
    progress: Progress = nothing_told,
) -> FolderWitness:
    """The witness of a loss in `recording`; keeps its state beside it.

    Without a state the search begins at one that an earlier look has found, else at what is
    durable at the cut.  With `operation` that one must stay lost, else any one of those lost at
    first.  `judge` and all states are of `promise`.  Raises UsageError if nothing is lost,
    HostError.
    """
    clock = Clock(budget, budget, 1)
    clock.work()
    name, state, first = _start(recording, judge, promise, state_name)
    if operation is not None and operation not in first.lsns:
        raise UsageError(
            f"state {name} does not lose operation {operation}",
            hint=f"it loses {', '.join(map(str, first.lost)) or 'none by number'}",
        )
    space, limit = judge.space, SearchLimit(budget, clock, 0.0)
    search = WitnessSearch(space, state.instant, judge, first, operation, limit, progress)
    items = search.run(_contents_first(judge, items_of(space, state)))
    witness_state = space.legal(state_of(space, state.instant, items))
    items = items_of(space, witness_state)
    judgement = judge.judge(witness_state)
    for found in judgement.lossy:
        if judge.confirm(witness_state, found).confirmed != "yes":
            raise UsageError(
                f"asked again of what the search from state {name} has found, the check did not "
                "say the same",
                hint="mend the check: what contradicts itself has no cause",
            )
    drops = [item for item in items if isinstance(item, Drop)]
    story = FolderStory(recording, space, state.instant)
    dropped = story.lost(drops)
    told = operation if operation is not None else _first(judgement.lost)
    return FolderWitness(
        powercut=__version__,
        start=name,
        state=save_state(recording.directory, witness_state, promise),
        crash_state=value_of(witness_state, promise),
        promise="posix" if promise is Promise.POSIX else "journal",
        instant_ns=state.instant,
        start_ns=recording.start_ns,
        lost=judgement.lost,
        kinds=tuple(sorted(judgement.kinds, key=lambda kind: kind.value)),
        message=judgement.message,
        volatile=len(space.volatile(state.instant)),
        dropped_before=len({i.write for i in search.first_items if isinstance(i, Drop)}),
        dropped=dropped,
        out_of_order=len(items) - len(drops),
        minimal=not (search.out_of_budget or search.unknown),
        tests=judge.tests,
        events=story.events(dropped, told),
        cause=cause_of(story, judge, witness_state, dropped, judgement, told),
    )


def _first(lost: Sequence[LsnRange]) -> int | None:
    return lost[0].first if lost else None


def _contents_first(judge: FolderJudge, items: Sequence[Item]) -> list[Item]:
    """Of equal causes the search keeps the earlier one, and bytes say more than a size."""
    rows = judge.space.rows
    return sorted(
        items, key=lambda one: isinstance(one, Drop) and rows[one.write].change is not None
    )


def _start(
    recording: CaptureRecording, judge: FolderJudge, promise: Promise, name: str | None
) -> tuple[str, CrashState, Judgement]:
    """A state that loses something, and what it loses."""
    tried = []
    for candidate in [name] if name is not None else _candidates(recording, promise):
        named = resolve_folder_state(recording, candidate, promise)
        judgement = judge.judge(named.state)
        if judgement.verdict is Verdict.LOSSY:
            return named.name, named.state, judgement
        if name is not None:
            raise UsageError(
                f"state {name} loses nothing: {judgement.message or 'everything is there'}",
                hint="name another state; `powercut explore` finds those that lose something",
            )
        tried.append(candidate)
    raise UsageError(
        f"no loss is known in this recording: tried {', '.join(tried)}",
        hint="name a state, or let `powercut explore` look for one",
    )


def _candidates(recording: CaptureRecording, promise: Promise) -> list[str]:
    """States that may lose something: those found, then what is durable at the cut."""
    directory = recording.directory
    found = [
        example.id
        for result in (directory.find_result(), directory.find_exploration())
        if result is not None and result.promise == promise.value
        for finding in result.explored.findings
        if finding.verdict is Verdict.LOSSY
        for example in finding.examples
        if example.id
    ]
    return [*dict.fromkeys(found), "durable@cut"]
