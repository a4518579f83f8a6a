# SPDX-License-Identifier: Apache-2.0
"""What is read off a recording of a program to tell of its cut, in numbers and by name.

From what is stored alone; what cannot be read is left out, and the verdict has said why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from powercut.crash.states import CrashState
from powercut.explore.program_story import story_of
from powercut.model.errors import PowercutError
from powercut.model.operations import OperationHistory
from powercut.model.timeline import RequestKind
from powercut.model.verdict import LsnRange
from powercut.recording import state_ref
from powercut.recording.disk_files import names_of
from powercut.recording.materialize import cut_state
from powercut.recording.trial_recording import TrialRecording, open_trial
from powercut.store.exploration import ExploreResult, FoundState, read_exploration
from powercut.store.results import TrialResult
from powercut.store.trial_dir import TrialDir


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
        """What there is."""
        try:
            return cls(trial, open_trial(directory), read_exploration(directory))
        except PowercutError:
            return cls(trial)

    @classmethod
    def of_states(cls, directory: TrialDir, explored: ExploreResult) -> ProgramCut:
        """The same of an exploration that has just been made."""
        try:
            return cls(None, open_trial(directory), explored)
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
