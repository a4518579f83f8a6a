# SPDX-License-Identifier: Apache-2.0
"""What the disk saw between two marks of its log.  Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.model.contract import Honour
from powercut.model.errors import DamagedRecording
from powercut.model.timeline import RequestKind, Requests, Timeline
from powercut.model.units import NEVER
from powercut_extras.certify.measurement import RequestCounts

BEGIN: Final = "measured commits begin"
END: Final = "measured commits end"

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class DiskAccount:
    """The requests of the measured commits, as the disk saw them.

    `uncovered` writes had neither FUA nor a later flush at the end; `not_durable` ones were
    not durable by the contract.
    """

    counts: RequestCounts
    uncovered: int
    not_durable: int


def account(timeline: Timeline) -> DiskAccount:
    """Counts between the marks BEGIN and END; raises DamagedRecording if they are not there."""
    begin, end = (_mark(timeline, name) for name in (BEGIN, END))
    requests, contract = timeline.requests, timeline.contract
    within = (requests.submitted_ns > begin) & (requests.submitted_ns < end)
    writes = within & np.isin(requests.kind, (RequestKind.WRITE, RequestKind.ZERO))
    flushes = within & (requests.kind == RequestKind.FLUSH)
    by_flush = _flushed(requests, end)
    uncovered = writes & ~requests.fua & ~by_flush
    if contract.volatile_cache:
        durable = np.zeros(len(requests), dtype=np.bool_)
        if contract.fua is Honour.HONOURED:
            durable |= requests.fua
        if contract.flush is Honour.HONOURED:
            durable |= by_flush
    else:
        durable = requests.completed_ns < end
    kinds = {
        "write": writes & ~requests.fua,
        "fua": writes & requests.fua,
        "flush": flushes,
        "discard": within & (requests.kind == RequestKind.DISCARD),
    }
    return DiskAccount(
        RequestCounts(
            writes=int(writes.sum()),
            fua_writes=int((writes & requests.fua).sum()),
            flushes=int(flushes.sum()),
            written_bytes=int(requests.length[writes].sum()),
            kinds={name: int(mask.sum()) for name, mask in kinds.items() if mask.any()},
        ),
        uncovered=int(uncovered.sum()),
        not_durable=int((writes & ~durable).sum()),
    )


def _mark(timeline: Timeline, name: str) -> int:
    instants = [int(at) for at, mark in timeline.marks if mark == name]
    if len(instants) != 1:
        raise DamagedRecording(f"the disk log of a measurement has {len(instants)} marks '{name}'")
    return instants[0]


def _flushed(requests: Requests, end: int) -> Mask:
    """Writes that completed before the submission of a flush that completed before `end`."""
    flushes = (requests.kind == RequestKind.FLUSH) & (requests.completed_ns != NEVER)
    flushes &= requests.completed_ns < end
    return np.asarray(requests.completed_ns < requests.submitted_ns[flushes].max(initial=0))
