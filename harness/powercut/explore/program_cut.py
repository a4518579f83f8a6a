# SPDX-License-Identifier: Apache-2.0
"""What is read off a recording of a program to tell of its cut, in numbers and by name.

From what is stored alone; what cannot be read is left out, and the verdict has said why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from powercut.crash.arrays import I64
from powercut.crash.states import CrashState, StateSpace
from powercut.model.errors import PowercutError
from powercut.model.operations import OperationHistory
from powercut.model.timeline import RequestKind
from powercut.model.units import NEVER, milliseconds
from powercut.model.verdict import LsnRange
from powercut.recording import state_ref
from powercut.recording.disk import cut_state
from powercut.recording.disk_files import names_of
from powercut.recording.disk_places import NamesWrites, Part
from powercut.recording.sealed import SealedTrial, TrialRecording, open_trial
from powercut.store.exploration import ExploreResult, FoundState, read_exploration
from powercut.store.trial_dir import TrialDir
from powercut.store.trial_result import TrialResult


@dataclass(frozen=True)
class DiskUse:
    """What a program asked of its disk, from its start to the cut."""

    seconds: float
    writes: int
    flushes: int


@dataclass(frozen=True)
class StateLoss:
    """A crash state in which something is lost.

    `at_ms` counts from the program's start; `missing` of the `volatile` writes that were not
    durable then are not in it.  `story` says what was acknowledged, and for want of what it is
    gone.
    """

    at_ms: float
    policy: str
    missing: int
    volatile: int
    story: tuple[str, ...]


@dataclass(frozen=True)
class ProgramCut:
    """One trial of a program, as far as its recording can be read: the verdict has said why not.

    `trial` is None where its states alone are told of.
    """

    trial: TrialResult | None
    recording: TrialRecording | None = None
    explored: ExploreResult | None = None

    @classmethod
    def read(cls, directory: TrialDir, trial: TrialResult) -> ProgramCut:
        try:
            return cls(trial, open_trial(directory), read_exploration(directory))
        except PowercutError:
            return cls(trial)

    @classmethod
    def of_states(cls, sealed: SealedTrial, explored: ExploreResult) -> ProgramCut:
        """The same of an exploration that has just been made."""
        try:
            return cls(None, sealed.opened, explored)
        except PowercutError:
            return cls(None, None, explored)

    @property
    def of_program(self) -> bool:
        """Whether the recording can be read, and is one of a program."""
        if self.recording is None:
            return False
        return isinstance(self.recording.promises.requirements, OperationHistory)

    @property
    def disk_use(self) -> DiskUse | None:
        """None if its recording cannot be read to the cut."""
        recording = self.recording
        if recording is None or recording.timeline.cut is None:
            return None
        requests = recording.timeline.requests
        return DiskUse(
            (int(recording.timeline.cut.at) - self._began_ns(recording)) / 1e9,
            int(requests.is_write.sum()),
            int((requests.kind == RequestKind.FLUSH).sum()),
        )

    def at_cut(self, operations: Sequence[LsnRange]) -> StateLoss | None:
        """What the cut itself left, in which `operations` are lost."""
        if self.recording is None:
            return None
        return self._loss(self.recording, cut_state(self.recording.space), operations)

    def in_state(self, example: FoundState) -> StateLoss | None:
        """What an example of an exploration is; None if it has no name."""
        if self.recording is None or not example.id:
            return None
        state = state_ref.load(self.recording.directory, example.id)
        return self._loss(self.recording, state, example.lsns)

    def _began_ns(self, recording: TrialRecording) -> int:
        start = recording.promises.start_ns
        return int(recording.timeline.start_ns) if start is None else start

    def _loss(
        self, recording: TrialRecording, state: CrashState, operations: Sequence[LsnRange]
    ) -> StateLoss:
        history = recording.promises.requirements
        assert isinstance(history, OperationHistory)
        volatile = len(recording.space.volatile(state.instant))
        places = names_of(recording, state.instant)
        return StateLoss(
            at_ms=(state.instant - self._began_ns(recording)) / 1e6,
            policy=state.policy,
            missing=volatile - len(state.survivors),
            volatile=volatile,
            story=story_of(history, recording.space, state, operations, places),
        )


# A state in which operations are lost: when they were acknowledged, and for want of what.

_PLACES_MAX: Final = 6
_NAMED_MAX: Final = 4


def story_of(
    history: OperationHistory,
    space: StateSpace,
    state: CrashState,
    lost: Sequence[LsnRange],
    places: NamesWrites,
) -> tuple[str, ...]:
    """Sentences, the acknowledgements first; times in ms before the cut."""
    acked = _acknowledged(history, state.instant, lost)
    return (
        *_told_acks(state.instant, *acked),
        *_last_durable(space, state.instant, acked[1], places),
        _missing(space, state, places, acknowledged=bool(lost)),
        *_liars(space, state.instant),
    )


def _acknowledged(
    history: OperationHistory, instant: int, lost: Sequence[LsnRange]
) -> tuple[I64, I64]:
    """The operations of `lost` that were acknowledged before `instant`, and when."""
    chosen = np.zeros(len(history.acked), dtype=bool)
    for span in lost:
        chosen |= (history.acked >= span.first) & (history.acked <= span.last)
    chosen &= history.ack_ns < instant
    return history.acked[chosen], history.ack_ns[chosen]


def _told_acks(instant: int, operations: I64, acks: I64) -> Iterator[str]:
    """Each by its name and when it was acknowledged; of many the last."""
    if not len(acks):
        return
    if len(acks) == 1:
        ago = _before(instant, acks[0])
        yield f"operation {operations[0]} was acknowledged {ago} before the cut"
        return
    shown = list(zip(operations.tolist(), acks.tolist(), strict=True))[-_NAMED_MAX:]
    named = ", ".join(f"{operation} ({_before(instant, ack)})" for operation, ack in shown)
    more = len(acks) - len(shown)
    first = f"{more:,} from {_before(instant, acks[0])} before the cut on; then " if more else ""
    yield f"acknowledged and lost, with the time before the cut: {first}{named}"


def _last_durable(space: StateSpace, instant: int, acks: I64, places: NamesWrites) -> Iterator[str]:
    """The last write and the last flush that were done before the last of the lost acks, or else
    before the cut."""
    end = int(acks[-1]) if len(acks) else instant
    what = "the cut"
    if len(acks):
        what = "that acknowledgement" if len(acks) == 1 else "the last of these acknowledgements"
    requests = space.timeline.requests
    told = []
    for flush, name in ((False, "write"), (True, "flush")):
        kind = (requests.kind == RequestKind.FLUSH) == flush
        done = np.flatnonzero(kind & (requests.completed_ns < min(end, int(NEVER))))
        if not len(done):
            told.append(f"no {name} was done")
            continue
        last = int(done[np.argmax(requests.completed_ns[done])])
        where = "" if flush else _held(space, last, places)
        told.append(f"the last {name}{where} {_before(end, requests.completed_ns[last])} earlier")
    yield f"before {what}: {', '.join(told)}"
    if len(acks) > 1 and not _any_flush(space, int(acks[0]), end):
        yield "no flush reached the disk between the first of these acknowledgements and the last"


def _any_flush(space: StateSpace, begin: int, end: int) -> bool:
    requests = space.timeline.requests
    flushes = requests.submitted_ns[requests.kind == RequestKind.FLUSH]
    return bool(((flushes >= begin) & (flushes < end)).any())


def _held(space: StateSpace, write: int, places: NamesWrites) -> str:
    parts = _parts(space, write, places)
    more = f" and {_places(len(parts) - 1)}" if len(parts) > 1 else ""
    return f" ({parts[0]}{more})" if parts else ""


def _parts(space: StateSpace, write: int, places: NamesWrites) -> list[Part]:
    """What a write holds; nothing of a discard or of zeroes."""
    if space.timeline.requests.data_offset[write] < 0:
        return []
    offset = int(space.timeline.requests.offset[write])
    return places.parts(offset, space.timeline.payload(write).tobytes())


@dataclass
class _Place:
    """What missing writes have hit: a file between two places of it, or another place."""

    writes: int = 0
    begin: int | None = None
    end: int | None = None

    def add(self, part: Part) -> None:
        if part.at is not None and part.next_at is not None:
            self.begin = part.at if self.begin is None else min(self.begin, part.at)
            self.end = part.next_at if self.end is None else max(self.end, part.next_at)

    def told(self, name: str) -> str:
        where = "" if self.begin is None else f", bytes {self.begin:,} to {self.end:,}"
        return name + where + (f" ({self.writes:,} writes)" if self.writes > 1 else "")


def _missing(
    space: StateSpace, state: CrashState, places: NamesWrites, *, acknowledged: bool
) -> str:
    kept = set(state.survivors)
    missing = [write for write in space.volatile(state.instant).tolist() if write not in kept]
    if not missing:
        why = "what was acknowledged had not been sent to it"
        then = why if acknowledged else "the next one had not been sent to it"
        return f"no write that the disk was given is missing: {then}"
    found: dict[str, _Place] = {}
    for write in missing:
        parts = _parts(space, write, places)
        for what in {part.what for part in parts}:
            found.setdefault(what, _Place()).writes += 1
        for part in parts:
            found[part.what].add(part)
    if not found:
        return "missing: discards and zeroes"
    ranked = sorted(found, key=lambda name: (-found[name].writes, name))
    told = [found[name].told(name) for name in ranked[:_PLACES_MAX]]
    more = len(ranked) - len(told)
    told += [f"and {_places(more)}"] if more > 0 else []
    return f"missing writes by what they hold: {'; '.join(told)}"


def _liars(space: StateSpace, instant: int) -> Iterator[str]:
    """Of several disks, those that have ignored flushes or FUA until the cut."""
    timeline = space.timeline
    for disk in timeline.disks:
        asked = space.completed_ns < instant
        asked &= (timeline.requests.kind == RequestKind.FLUSH) | timeline.requests.fua
        asked &= (timeline.requests.offset >= disk.begin) & (timeline.requests.offset < disk.end)
        count = sum(timeline.ignored(index) for index in np.flatnonzero(asked).tolist())
        if count:
            yield f"disk {disk.name} ignored {count:,} flushes or writes with FUA before the cut"


def _places(more: int) -> str:
    return "1 more place" if more == 1 else f"{more:,} more places"


def _before(instant: int, then: int) -> str:
    return milliseconds((instant - int(then)) / 1e6)
