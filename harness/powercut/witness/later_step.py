# SPDX-License-Identifier: Apache-2.0
"""Why an operation is lost on a disk although all that is missing was written after its ack.

Either it was not there at its ack, with all that had been issued by then: its bytes came later.  Or
it was, and a later step of the program has taken it away, by a write that survived while what was
to stand in its place did not.  Which write that was is tried: without it the operation has to be
there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from powercut.crash.legality import why_illegal
from powercut.crash.states import CrashState, StateSpace
from powercut.model.operations import OperationHistory
from powercut.model.units import milliseconds
from powercut.recording.disk import DiskRecording
from powercut.store.witness import DroppedWrite
from powercut.witness.search import Judge
from powercut.witness.story import named_writes

_TRIED_MAX: Final = 24


def step_at(history: OperationHistory, instant: int) -> str:
    """What the program was at then, by its own lines."""
    tried = history.attempted[history.attempt_ns < instant]
    if not len(tried):
        return "before any operation was tried"
    number = int(tried[-1])
    acked = history.ack_ns[history.acked == number]
    if len(acked) and int(acked[0]) < instant:
        return f"and after that of {number}, the last one that had been tried"
    return f"while operation {number} was under way"


def later_step(
    recording: DiskRecording,
    judge: Judge,
    state: CrashState,
    dropped: Sequence[DroppedWrite],
    operation: int | None,
) -> str:
    """How `state`, the witness, lost an operation by what came after its ack; empty if not so.

    Raises HostError.
    """
    history, space = recording.promises.requirements, recording.space
    if not isinstance(history, OperationHistory) or not dropped or recording.imported:
        return ""
    acks = history.ack_ns[history.acked == operation]
    if operation is None or not len(acks):
        return ""
    acked_ns = int(acks[0])
    first = min(dropped, key=lambda one: one.submitted_ns)
    if first.submitted_ns <= acked_ns:
        return ""
    late = milliseconds((first.submitted_ns - acked_ns) / 1e6)
    if operation in judge.judge(_issued(space, acked_ns + 1)).lsns:
        return (
            f"It was not there when it was acknowledged, with all that had been issued by then: "
            f"what is missing was sent {late} later."
        )
    what = first.parts[0].what if first.parts else first.kind
    return (
        f"It was there when it was acknowledged, and a later step takes it away: what is missing "
        f"({what}) was sent {late} after that ack {step_at(history, first.submitted_ns)}. "
        f"{_taken_by(recording, judge, state, operation, acked_ns)}."
    )


def _taken_by(
    recording: DiskRecording, judge: Judge, state: CrashState, operation: int, acked_ns: int
) -> str:
    """Which write that is there has taken the operation away."""
    space = recording.space
    submitted = recording.timeline.requests.submitted_ns
    since = [one for one in state.survivors if int(submitted[one]) > acked_ns]
    older = _without(space, state, since)
    if older is None or operation in judge.judge(older).lsns:
        return "What took it away came after that ack, too, and is durable"
    for without, write in _each(space, state, since):
        if operation not in judge.judge(without).lsns:
            (name,) = named_writes(recording, state.instant, [write])
            return f"{name} survived, and without it operation {operation} would be there"
    return "No single write that survived has taken it away, but several together"


def _each(
    space: StateSpace, state: CrashState, since: Sequence[int]
) -> Iterator[tuple[CrashState, int]]:
    tried = 0
    for write in reversed(since):
        without = _without(space, state, [write])
        if without is not None and tried < _TRIED_MAX:
            tried += 1
            yield without, write


def _issued(space: StateSpace, instant: int) -> CrashState:
    return CrashState(instant, tuple(space.volatile(instant).tolist()))


def _without(space: StateSpace, state: CrashState, gone: Sequence[int]) -> CrashState | None:
    """The state without some of its writes; None if it has to have one of them."""
    kept = tuple(one for one in state.survivors if one not in gone)
    torn = tuple(part for part in state.torn if part.write in kept)
    found = replace(state, survivors=kept, torn=torn, moves=())
    found = space.legal(found)
    if why_illegal(space, found) or set(found.survivors) & set(gone):
        return None
    return found
