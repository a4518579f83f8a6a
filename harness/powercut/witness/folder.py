# SPDX-License-Identifier: Apache-2.0
"""The witness of a captured folder: the fewest lost writes that still lose something, by file.

The search is that of disks (powercut.witness.search); a state is made, checked by the user's
command, and, if it loses something, made and checked again.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from powercut.crash.folder import FolderSpace
from powercut.crash.folder_rows import NameChange, Row, SizeChange, is_ordered
from powercut.crash.states import CrashState
from powercut.explore.clock import Clock
from powercut.explore.folder import ENGINE
from powercut.explore.folder_judge import FolderJudge
from powercut.explore.request import Budget
from powercut.explore.state_judge import Judgement
from powercut.model.errors import UsageError
from powercut.model.folder import FolderOp
from powercut.model.timeline import RequestKind
from powercut.model.verdict import Verdict
from powercut.recording.folder import FolderRecording
from powercut.recording.folder_names import in_file
from powercut.store.witness import DroppedWrite, Witness
from powercut.witness.folder_story import FolderStory
from powercut.witness.search import (
    Drop,
    Item,
    Judge,
    Progress,
    SearchLimit,
    document,
    first_loss,
    items_of,
    nothing_told,
    smallest_loss,
)


def minimize_folder(
    recording: FolderRecording,
    judge: FolderJudge,
    state_name: str | None = None,
    *,
    operation: int | None = None,
    budget: Budget,
    progress: Progress = nothing_told,
) -> Witness:
    """The witness of a loss in `recording`; keeps its state beside it.

    Without a state the search begins at one that an earlier look has found, else at what is
    durable at the cut.  With `operation` that one must stay lost, else any one of those lost at
    first.  Raises UsageError if nothing is lost,
    HostError.
    """
    clock = Clock(budget, budget, 1)
    clock.work()
    first = first_loss(recording, judge, state_name, _candidates(recording))
    limit = SearchLimit(budget, clock, 0.0)
    space = judge.space
    found = smallest_loss(
        space, judge, first, operation, limit, progress, partial(_contents_first, judge)
    )
    for one in found.judgement.lossy:
        if judge.confirm(found.state, one).confirmed != "yes":
            raise UsageError(
                f"asked again of what the search from state {found.start} has found, the check did "
                "not say the same",
                hint="mend the check: what contradicts itself has no cause",
            )
    story = FolderStory(recording, space, found.state.instant)
    dropped = story.lost(found.drops)
    return document(
        recording,
        found,
        promise=recording.promise.value,
        unit="operation",
        dropped=dropped,
        engine=ENGINE,
        confirmed="yes",
        events=story.events(dropped, found.told),
        cause=cause_of(story, judge, found.state, dropped, found.judgement, found.told)
        + _unsynced_besides(recording, story, dropped, found.told),
    )


def _contents_first(judge: FolderJudge, items: list[Item]) -> list[Item]:
    """Of equal causes the search keeps the earlier one, and bytes say more than a size."""
    rows = judge.space.rows
    return sorted(
        items, key=lambda one: isinstance(one, Drop) and rows[one.write].change is not None
    )


def _candidates(recording: FolderRecording) -> list[str]:
    """States that may lose something: those found, then what is durable at the cut."""
    directory = recording.directory
    found = [
        example.id
        for result in (directory.find_result(), directory.find_exploration())
        if result is not None and result.promise == recording.promise.value
        for finding in result.explored.findings
        if finding.verdict is Verdict.LOSSY
        for example in finding.examples
        if example.id
    ]
    return [*dict.fromkeys(found), "durable@cut"]


# The cause of a loss in a captured folder, in one sentence.
#
# What is missing was issued before the lost operation was acknowledged: then the ack came too
# early. Or all of it came later.  Then either the operation was not there at its ack, with all that
# had been issued by then: its page of a mapping had not been written yet.  Or it was, and a later
# step has taken it away, by a change that survived while what was to stand in its place did not.
# Which change that was is tried: without it the operation has to be there.

_CAUSES_MAX: Final = 3
_TRIED_MAX: Final = 12
_TAKING: Final = (FolderOp.UNLINK, FolderOp.RMDIR, FolderOp.RENAME)


def cause_of(
    story: FolderStory,
    judge: Judge,
    state: CrashState,
    dropped: Sequence[DroppedWrite],
    judgement: Judgement,
    operation: int | None,
) -> str:
    """Why `state`, the witness, loses `operation`, with others.  Raises HostError."""
    if not dropped:
        return f"Everything issued is there, and something is lost: {judgement.message}"
    acked_ns = story.acked_ns(operation)
    early = [one for one in dropped if acked_ns is None or one.submitted_ns < acked_ns]
    first = early[0] if early else dropped[0]
    files = list(dict.fromkeys(one.path for one in dropped))
    more = f" and {len(files) - _CAUSES_MAX} more" if len(files) > _CAUSES_MAX else ""
    named = f" (of {', '.join(files[:_CAUSES_MAX])}{more})" if len(files) > 1 else ""
    rest = f", and {len(dropped) - 1} more" if len(dropped) > 1 else ""
    lost = ", ".join(map(str, judgement.lost))
    several = not lost.isdigit()
    subject = f"Operations {lost} were" if several else f"Operation {lost} was"
    if acked_ns is None or operation is None or early:
        what = f"{subject} acknowledged" if lost else "The program was at work"
        return f"{what} while {first.text}{rest} could be lost{named}: {first.why}."
    late_ms = (first.submitted_ns - acked_ns) / 1e6
    if operation in judge.judge(_issued(story.space, acked_ns + 1)).lsns:
        return (
            f"{subject} acknowledged {late_ms:.3f} ms before {first.text}{rest} was "
            f"issued, and could be lost{named}: {first.why}."
        )
    return (
        f"{subject} acknowledged, and a later step takes {'them' if several else 'it'} away: "
        f"{first.text}{rest}, "
        f"issued {late_ms:.3f} ms after the ack of {operation} {story.step(first.submitted_ns)}, "
        f"could be lost{named}: {first.why}. {_taken_by(story, judge, state, operation, acked_ns)}."
    )


def _unsynced_besides(
    recording: FolderRecording,
    story: FolderStory,
    dropped: Sequence[DroppedWrite],
    operation: int | None,
) -> str:
    """Which of the operation's own changes were not durable at its ack for want of other syncs."""
    history, space = recording.history, story.space
    if (acked_ns := story.acked_ns(operation)) is None:
        return ""
    begun = int(history.attempt_ns[history.attempted == operation].min(initial=acked_ns))
    items = items_of(space, CrashState(acked_ns + 1, ()))
    own = [one for one in items if space.rows[one.write].request.submitted_ns > begun]
    drops = [one for one in own if isinstance(one, Drop)]
    lost = FolderStory(recording, space, acked_ns + 1).lost(drops)
    names = [one for one in lost if one.kind == "name"][-1:]  # the name that it has then
    others = [*names, *(one for one in lost if one.kind == "write")]
    known = {one.why for one in dropped}
    told = {one.why: one.text for one in others if one.why not in known}
    return "".join(
        f" At the ack of {operation} {text} could be lost, too: {why}."
        for why, text in [*told.items()][:_CAUSES_MAX]
    )


def _taken_by(
    story: FolderStory, judge: Judge, state: CrashState, operation: int, acked_ns: int
) -> str:
    """Which change that is there has taken the operation away."""
    space = story.space
    durable = set(space.durable(state.instant).tolist())
    fixed: list[int] = []
    tried = 0
    for index in _takers(space, state, acked_ns):
        if index in durable:
            fixed.append(index)
            continue
        if tried < _TRIED_MAX and (without := _without(space, state, index)) is not None:
            tried += 1
            if operation not in judge.judge(without).lsns:
                what, change = _sentence(story, index), space.rows[index].change
                if isinstance(change, SizeChange) and change.at_least:
                    what += " (a size without its bytes, as ext4 with data=writeback leaves it)"
                return f"{what} survived, and without it operation {operation} would be there"
    if fixed:
        return f"{_sentence(story, fixed[0])} came after the ack, too, and is durable"
    return "No single change that survived has taken it away"


def _issued(space: FolderSpace, instant: int) -> CrashState:
    return CrashState(instant, tuple(space.volatile(instant).tolist()))


def _sentence(story: FolderStory, index: int) -> str:
    row = story.space.rows[index]
    whole = in_file(row.offset, row.offset + row.length)
    text = story.describe(row, [] if row.change is not None else [whole])
    return text[:1].upper() + text[1:]


def _takers(space: FolderSpace, state: CrashState, acked_ns: int) -> Iterator[int]:
    """The changes of a state since an ack that may take something away: those of sizes and names
    come first, and of each kind the last.
    """
    there = space.application_order(state).tolist()
    whole = set(state.survivors) - {kept.write for kept in state.torn}
    gone = set(space.volatile(state.instant).tolist()) - whole
    lacking = {space.rows[at].request.object for at in gone}
    since = [at for at in reversed(there) if space.rows[at].request.submitted_ns > acked_ns]
    for index in sorted(since, key=lambda at: space.rows[at].change is None):
        if _takes(space, index, space.rows[index], lacking):
            yield index


def _takes(space: FolderSpace, index: int, row: Row, lacking: Container[int]) -> bool:
    if isinstance(row.change, SizeChange):
        return not row.change.at_least or row.request.object in lacking
    if isinstance(row.change, NameChange):
        return row.request.op in _TAKING
    if row.change is not None or row.kind is RequestKind.FLUSH:
        return False
    end = row.offset + row.length
    return any(
        one.kind is RequestKind.WRITE and one.offset < end and row.offset < one.offset + one.length
        for one in space.rows[:index]
        if one.change is None and one.request.object == row.request.object
    )


def _without(space: FolderSpace, state: CrashState, index: int) -> CrashState | None:
    """The state without one of its changes, and without what cannot be there if that is not."""
    ordered = is_ordered(space.rows[index])
    kept = tuple(
        one
        for one in state.survivors
        if one != index and not (ordered and one > index and is_ordered(space.rows[one]))
    )
    torn = tuple(part for part in state.torn if part.write in kept)
    found = space.legal(replace(state, survivors=kept, torn=torn, moves=()))
    return None if index in found.survivors else found
