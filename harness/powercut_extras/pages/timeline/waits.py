# SPDX-License-Identifier: Apache-2.0
"""What an ack waits for on each of several disks, such as the nodes of a cluster have.

Of each operation that is looked at from its attempt to its ack: when the first write was issued to
a disk, and when the last flush of it was completed.  A disk without a flush in between is none that
the ack has waited for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from powercut.crash.arrays import I64
from powercut.model.operations import OperationHistory
from powercut.model.timeline import RequestKind, Timeline


@dataclass(frozen=True)
class DiskWait:
    """One disk's part in `operations`.

    Instants are medians of those that had any, nanoseconds after the attempt; None if none had.
    """

    name: str
    operations: int
    written: int
    """Operations during which something was written to it."""

    flushed: int
    """Operations during which a flush of it was completed."""

    first_write_ns: int | None
    last_flush_ns: int | None


@dataclass(frozen=True)
class Waits:
    """Of each disk its part, and the median time from attempt to ack, in nanoseconds."""

    disks: tuple[DiskWait, ...]
    ack_ns: int


def waits_of(timeline: Timeline, history: OperationHistory, completed_ns: I64) -> Waits | None:
    """None if there is one disk, or no operation with an attempt before its ack."""
    spans = list(_spans(history))
    if not timeline.disks or not spans:
        return None
    requests = timeline.requests
    flush = requests.kind == RequestKind.FLUSH
    disks = []
    for disk in timeline.disks:
        own = (requests.offset >= disk.begin) & (requests.offset < disk.end)
        writes = np.sort(requests.submitted_ns[own & ~flush])
        flushes = np.sort(completed_ns[own & flush])
        first, last = [], []
        for begin, end in spans:
            low, high = np.searchsorted(writes, (begin, end))
            if low < high:
                first.append(int(writes[low]) - begin)
            low, high = np.searchsorted(flushes, (begin, end))
            if low < high:
                last.append(int(flushes[high - 1]) - begin)
        disks.append(
            DiskWait(disk.name, len(spans), len(first), len(last), _median(first), _median(last))
        )
    median = _median([end - begin for begin, end in spans])
    assert median is not None
    return Waits(tuple(disks), median)


def _spans(history: OperationHistory) -> Iterator[tuple[int, int]]:
    """The attempt and the ack of each operation; of one that was tried again the last before it."""
    tried: dict[int, int] = {}
    events = sorted(
        [(at, 0, name) for name, at in zip(history.attempted, history.attempt_ns, strict=True)]
        + [(at, 1, name) for name, at in zip(history.acked, history.ack_ns, strict=True)]
    )
    for at, acked, name in events:
        if not acked:
            tried[int(name)] = int(at)
        elif int(name) in tried:
            yield tried.pop(int(name)), int(at)


def _median(values: list[int]) -> int | None:
    return int(np.median(values)) if values else None
