# SPDX-License-Identifier: Apache-2.0
"""The recording of a trial as far as it can be read, for drawing and telling.

Nothing is judged here: what cannot be read is said, and the rest is shown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from powercut.crash.dating import date_acks
from powercut.model.errors import PowercutError
from powercut.model.history import History
from powercut.model.observation import Observation
from powercut.model.timeline import RequestKind, Timeline
from powercut.model.units import NEVER
from powercut.recording.bound import read_acks, read_disk_log
from powercut.store.trial_dir import TrialDir

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RecordingView:
    """What a recording holds; None for what cannot be read, and `problems` says why."""

    history: History | None
    timeline: Timeline | None
    observation: Observation | None
    cut_ns: int | None
    problems: tuple[str, ...]

    @property
    def start_ns(self) -> int:
        """The first attempt, else the first request, else 0."""
        if self.history is not None and len(self.history.attempt_ns):
            return int(self.history.attempt_ns[0])
        if self.timeline is not None and len(self.timeline.requests):
            return int(self.timeline.requests.submitted_ns[0])
        return 0

    @property
    def end_ns(self) -> int:
        """The cut, else the last thing known."""
        if self.cut_ns is not None:
            return self.cut_ns
        last = [self.start_ns]
        if self.history is not None and len(self.history.ack_ns):
            last.append(int(self.history.ack_ns[-1]))
        if self.timeline is not None and len(self.timeline.requests):
            last.append(int(self.timeline.requests.submitted_ns[-1]))
        return max(last)

    def submitted(self, *, flushes: bool) -> I64:
        """Instants of submission of all flushes, or of all writes, between start and cut."""
        if self.timeline is None:
            return np.zeros(0, dtype=np.int64)
        requests = self.timeline.requests
        wanted = (requests.kind == RequestKind.FLUSH) == flushes
        return self._within(requests.submitted_ns[wanted])

    def acks(self) -> tuple[I64, I64]:
        """Instants and LSNs of the acks before the cut."""
        if self.history is None:
            empty = np.zeros(0, dtype=np.int64)
            return empty, empty
        kept = self.history.ack_ns <= self.end_ns
        return self.history.ack_ns[kept], self.history.ack_lsn[kept]

    def _within(self, instants: I64) -> I64:
        return instants[(instants >= self.start_ns) & (instants <= self.end_ns)]


def view_of(trial: TrialDir) -> RecordingView:
    """Reads what there is."""
    problems: list[str] = []
    history = timeline = observation = cut_ns = None
    try:
        received = read_acks(trial).history
        history = replace(received, ack_ns=date_acks(received).latest_ns)
    except PowercutError as error:
        problems.append(str(error))
    try:
        timeline = read_disk_log(trial, trial.read_record(), verify_payloads=False)
        cut_ns = int(timeline.cut.at) if timeline.cut is not None else None
    except PowercutError as error:
        problems.append(str(error))
    try:
        observation = trial.read_observation()
    except PowercutError as error:
        problems.append(str(error))
    if cut_ns is None and history is not None and history.cut_ns != NEVER:
        cut_ns = int(history.cut_ns)
    return RecordingView(history, timeline, observation, cut_ns, tuple(problems))
