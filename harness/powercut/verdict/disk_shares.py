# SPDX-License-Identifier: Apache-2.0
"""What each of several disks was asked before the cut: which of them lied, or was never flushed."""

from __future__ import annotations

import numpy as np

from powercut.model.timeline import RequestKind, Timeline
from powercut.model.units import NEVER
from powercut.store.disk_share import DiskShare


def disk_shares(timeline: Timeline) -> tuple[DiskShare, ...]:
    """A share for each of several disks; empty if there is one alone."""
    requests = timeline.requests
    end = int(NEVER) if timeline.cut is None else int(timeline.cut.at)
    done = requests.completed_ns < end
    flush = requests.kind == RequestKind.FLUSH
    shares = []
    for disk in timeline.disks:
        its = done & (requests.offset >= disk.begin) & (requests.offset < disk.end)
        asked = np.flatnonzero(its & (flush | requests.fua)).tolist()
        shares.append(
            DiskShare(
                name=disk.name,
                writes=int((its & ~flush).sum()),
                flushes=len(asked),
                ignored=sum(timeline.ignored(index) for index in asked),
            )
        )
    return tuple(shares)
