# SPDX-License-Identifier: Apache-2.0
"""What a disk holds after its cut, from its log alone: a second opinion on the capture disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from powercut.disk.event_log import Mask
from powercut.disk.pclog_format import Bytes
from powercut.model.errors import DamagedRecording
from powercut.model.timeline import RequestKind, Timeline
from powercut.model.units import NEVER


def surviving_image(timeline: Timeline, base: Path) -> Bytes:
    """What the disk holds after its cut; without one, what a cut at the end would leave at least.

    Computed from the log alone: what a flush or FUA made durable, what a full cache
    destaged and what the cut left, in the order of submission.  One byte per byte of
    the disk.
    """
    image = np.fromfile(base, dtype=np.uint8)
    if len(image) != timeline.disk_size:
        raise DamagedRecording(
            f"{base}: {len(image)} bytes, but the recorded disk has {timeline.disk_size}"
        )
    requests = timeline.requests
    ranges = [
        (int(request), int(requests.offset[request]), int(requests.length[request]))
        for request in np.flatnonzero(_durable(timeline))
    ]
    kept = timeline.destaged + timeline.survived
    ranges += [(kept_range.request, kept_range.offset, kept_range.length) for kept_range in kept]
    for request, offset, length in sorted(ranges):
        target = image[offset : offset + length]
        if requests.kind[request] == RequestKind.WRITE:
            start = offset - int(requests.offset[request])
            target[:] = timeline.payload(request)[start : start + length]
        else:
            target[:] = 0
    return image


def _durable(timeline: Timeline) -> Mask:
    """Writes that the contract had made durable when the log ended."""
    requests, contract = timeline.requests, timeline.contract
    completed = requests.is_write & (requests.completed_ns != NEVER)
    if not contract.volatile_cache:
        return np.asarray(completed)
    durable = np.zeros(len(requests), dtype=np.bool_)
    if contract.fua.value == "honoured":
        durable |= requests.fua & requests.believed
    if contract.flush.value == "honoured":
        flushed = (requests.kind == RequestKind.FLUSH) & (requests.completed_ns != NEVER)
        flushed &= requests.believed
        offsets, lengths = requests.offset[flushed], requests.length[flushed]
        for begin, length in set(zip(offsets.tolist(), lengths.tolist(), strict=True)):
            alike = flushed & (requests.offset == begin) & (requests.length == length)
            before = requests.completed_ns < requests.submitted_ns[alike].max()
            inside = (requests.offset >= begin) & (requests.offset < begin + length)
            durable |= before & (inside if length else True)
    return np.asarray(completed & durable)
