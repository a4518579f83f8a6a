# SPDX-License-Identifier: Apache-2.0
"""The recording of a trial as far as it can be read, for drawing and telling.

Nothing is judged here: what cannot be read is said, and the rest is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from powercut.crash.dating import date_acks
from powercut.model.errors import PowercutError
from powercut.model.history import History
from powercut.model.observation import Observation
from powercut.model.operations import OperationHistory
from powercut.model.timeline import RequestKind, Timeline
from powercut.model.units import NEVER
from powercut.model.verdict import Difference, LsnRange, lsn_ranges
from powercut.recording.bound import read_acks, read_disk_log, read_lines
from powercut.store.trial_dir import TrialDir, TrialRecord
from powercut.workload.program.promises import ProgramPromises
from powercut.workload.program.workload import ProgramWorkload
from powercut.workload.table import workload_of

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RecordingView:
    """What a recording holds; None for what cannot be read, and `problems` says why.

    Of a program there are `promises` and no `history`.
    """

    history: History | None
    timeline: Timeline | None
    observation: Observation | None
    cut_ns: int | None
    problems: tuple[str, ...]
    promises: ProgramPromises | None = None

    @property
    def operations(self) -> OperationHistory | None:
        """What a program claimed; None for other workloads."""
        return None if self.promises is None else self.promises.requirements

    @property
    def difference(self) -> Difference | None:
        """What a program's check found after the cut, against what was acknowledged."""
        if self.promises is None or self.observation is None or not self.observation.recovered:
            return None
        return self.promises.difference(self.promises.claims_received(), self.observation)

    @property
    def start_ns(self) -> int:
        """The first attempt (of a program, when it was ready), else the first request, else 0."""
        if self.promises is not None and self.promises.start_ns is not None:
            return self.promises.start_ns
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
        """Instants of the acks before the cut, and the LSN or the operation of each."""
        if self.operations is not None:
            instants, numbers = self.operations.ack_ns, self.operations.acked
        elif self.history is not None:
            instants, numbers = self.history.ack_ns, self.history.ack_lsn
        else:
            instants = numbers = np.zeros(0, dtype=np.int64)
        kept = instants <= self.end_ns
        return instants[kept], numbers[kept]

    def curve(self) -> tuple[I64, I64]:
        """Instants of the acks before the cut, and how many records were acknowledged by then."""
        instants, numbers = self.acks()
        if self.operations is not None:  # their numbers are names
            numbers = np.arange(1, len(instants) + 1, dtype=np.int64)
        return instants, numbers

    def on_curve(self, lost: Sequence[LsnRange]) -> tuple[LsnRange, ...]:
        """Where on the curve those of `lost` stand that were acknowledged."""
        if self.operations is None:
            return tuple(lost)
        _, numbers = self.acks()
        gone = np.zeros(len(numbers), dtype=np.bool_)
        for span in lost:
            gone |= (numbers >= span.first) & (numbers <= span.last)
        return lsn_ranges((np.flatnonzero(gone) + 1).tolist())

    def _within(self, instants: I64) -> I64:
        return instants[(instants >= self.start_ns) & (instants <= self.end_ns)]


def view_of(trial: TrialDir) -> RecordingView:
    """Reads what there is."""
    problems: list[str] = []
    history = timeline = observation = cut_ns = promises = record = None
    try:
        record = trial.read_record()
        promises = _promises(trial, record)
        if promises is None:
            received = read_acks(trial).history
            history = replace(received, ack_ns=date_acks(received).latest_ns)
    except PowercutError as error:
        problems.append(str(error))
    try:
        record = record or trial.read_record()
        timeline = read_disk_log(trial, record, verify_payloads=False)
        cut_ns = int(timeline.cut.at) if timeline.cut is not None else None
    except PowercutError as error:
        problems.append(str(error))
    try:
        observation = trial.read_observation()
    except PowercutError as error:
        problems.append(str(error))
    if cut_ns is None and history is not None and history.cut_ns != NEVER:
        cut_ns = int(history.cut_ns)
    return RecordingView(history, timeline, observation, cut_ns, tuple(problems), promises)


def _promises(trial: TrialDir, record: TrialRecord) -> ProgramPromises | None:
    """What a program claimed; None for other workloads.  Raises DamagedRecording."""
    workload = workload_of(record.parameters)
    if not isinstance(workload, ProgramWorkload):
        return None
    cut_ns = int(NEVER) if record.cut_ns is None else record.cut_ns
    return workload.promises_by_lines(read_lines(trial), cut_ns)
