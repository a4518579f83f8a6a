# SPDX-License-Identifier: Apache-2.0
"""A recording as reports see it, made by hand."""

from __future__ import annotations

import numpy as np

from powercut.model.contract import CutPolicy, DeviceContract, Honour
from powercut.model.history import History
from powercut.model.timeline import DiskCut, RequestKind, Requests, Timeline
from powercut.model.units import NEVER, Instant
from powercut.store.view import RecordingView

MS = 1_000_000


def view() -> RecordingView:
    """Two commits: write, flush, ack each; then a write in flight, and the cut."""
    kinds = [RequestKind.WRITE, RequestKind.FLUSH, RequestKind.WRITE, RequestKind.FLUSH]
    kinds.append(RequestKind.WRITE)
    submitted = np.array([2, 3, 5, 6, 8], dtype=np.int64) * MS
    completed = submitted + MS // 2
    completed[4] = NEVER
    requests = Requests(
        kind=np.array(kinds, dtype=np.uint8),
        fua=np.array([False] * 4 + [True]),
        offset=np.arange(5, dtype=np.int64) * 4096,
        length=np.array([4096, 0, 4096, 0, 512], dtype=np.int64),
        submitted_ns=submitted,
        completed_ns=completed,
        data_offset=np.full(5, -1, dtype=np.int64),
        failed=np.zeros(5, dtype=np.bool_),
    )
    timeline = Timeline(
        disk_size=1 << 20,
        contract=DeviceContract(flush=Honour.IGNORED),
        requests=requests,
        data=np.zeros(0, dtype=np.uint8),
        cut=DiskCut(Instant(9 * MS), CutPolicy.DROP, 1),
    )

    def column(*values: int) -> np.ndarray:
        return np.array(values, dtype=np.int64)

    history = History(
        attempt_lsn=column(1, 2, 3),
        attempt_ns=column(1, 4, 7) * MS,
        ack_lsn=column(1, 2),
        ack_ns=column(4, 7) * MS,
        attempt_guest_ns=column(0, 0, 0),
        ack_guest_ns=column(0, 0),
    )
    return RecordingView(history, timeline, None, 9 * MS, ())
