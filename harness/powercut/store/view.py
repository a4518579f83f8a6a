# SPDX-License-Identifier: Apache-2.0
"""What a recording holds, as far as it could be read: for drawing and telling.

powercut.recording.view makes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from powercut.model.history import History
from powercut.model.observation import Observation
from powercut.model.operations import OperationHistory
from powercut.model.timeline import RequestKind, Timeline
from powercut.model.verdict import Difference, LsnRange, lsn_ranges

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RecordingView:
    """What a recording holds; None for what cannot be read, and `problems` says why.

    Of a program there are `operations` and no `history`.
    """

    history: History | None
    timeline: Timeline | None
    observation: Observation | None
    cut_ns: int | None
    problems: tuple[str, ...]
    operations: OperationHistory | None = None
    """What a program claimed; None for other workloads."""

    ready_ns: int | None = None
    """When a program was ready."""

    difference: Difference | None = None
    """What a program's check found after the cut, against what was acknowledged."""

    @property
    def start_ns(self) -> int:
        """The first attempt (of a program, when it was ready), else the first request, else 0."""
        if self.ready_ns is not None:
            return self.ready_ns
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
