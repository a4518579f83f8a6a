# SPDX-License-Identifier: Apache-2.0
"""What a crash state costs by the length of its log: drawn, and laid over the base image.

No engine recovers anything here: what a recovery costs depends on what it reads.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Final

import numpy as np

from bench.figure import Figure
from powercut.crash.arrays import I64
from powercut.crash.explore import InstantKind, events
from powercut.crash.order import ALL_POLICIES, Selection
from powercut.crash.states import StateSpace
from powercut.explore.clock import BATCH_MAX
from powercut.explore.state_images import StateImages
from powercut.model.contract import DeviceContract
from powercut.model.timeline import RequestKind, Requests, Timeline
from powercut.model.verdict import LsnRange
from powercut.recover.uml.origin import PAGE, Origin

LENGTHS: Final = (10**3, 10**4, 10**5, 10**6)
_STATES: Final = 256
_DISK: Final = 64 << 20
_GOAL: Final = 0.67
_PAYLOADS: Final = 512  # pages whose bytes exist; a longer log uses them again


class _Acks:
    """After each operation one."""

    def __init__(self, ack_ns: I64) -> None:
        self.ack_ns = ack_ns

    def required(self, instant: int) -> LsnRange | None:
        """The operations acknowledged before `instant`."""
        count = int(self.ack_ns.searchsorted(instant))
        return LsnRange(1, count) if count else None


def bench_lengths() -> list[Figure]:
    """States a second of processor time for logs of each length, against the shortest."""
    rates = {length: _rate(length) for length in LENGTHS}
    return [
        Figure(
            f"crash states of {length:,} requests, without recovery",
            rates[length],
            rates[LENGTHS[0]],
            f"{LENGTHS[0]:,} requests",
            "states/s",
            _GOAL,
        )
        for length in LENGTHS[1:]
    ]


def _rate(length: int) -> float:
    space = recording(length)
    begun = time.process_time()
    drawn = Selection(ALL_POLICIES, limit=_STATES).of(space, events(space, tuple(InstantKind)))
    states = list(drawn)
    images = StateImages(space)
    with tempfile.TemporaryDirectory(prefix="powercut-bench-") as folder:
        base = Path(folder) / "base"
        with base.open("wb") as file:
            file.truncate(_DISK)
        origin = Origin(base)
        for at in range(0, len(states), BATCH_MAX):
            for state in sorted(states[at : at + BATCH_MAX], key=lambda one: one.instant):
                origin.advance(images.writes(state))
    return len(states) / (time.process_time() - begun)


def recording(length: int) -> StateSpace:
    """A log of `length` requests, five an operation: data, flush, two of a journal, flush."""
    operation = np.arange(length // 5)
    offset = np.zeros((len(operation), 5), dtype=np.int64)
    offset[:, 0] = 2048 + operation % 8000
    offset[:, 2] = 16 + 2 * operation % 1024
    offset[:, 3] = 17 + 2 * operation % 1024
    kinds = [RequestKind.WRITE, RequestKind.FLUSH, *[RequestKind.WRITE] * 2, RequestKind.FLUSH]
    kind = np.tile(np.array(kinds, dtype=np.uint8), len(operation))
    count, writes = len(kind), kind == int(RequestKind.WRITE)
    submitted = np.arange(count, dtype=np.int64) * 100 + 10
    completed = submitted + 50
    completed[2::5] = submitted[3::5] + 60  # the two of a journal are in flight together
    payload = np.random.default_rng(0).integers(0, 256, _PAYLOADS * PAGE, dtype=np.uint8)
    requests = Requests(
        kind=kind,
        fua=np.zeros(count, dtype=np.bool_),
        offset=offset.reshape(-1) * PAGE,
        length=np.where(writes, PAGE, 0).astype(np.int64),
        submitted_ns=submitted,
        completed_ns=completed,
        data_offset=np.where(writes, np.arange(count) % _PAYLOADS * PAGE, -1).astype(np.int64),
        failed=np.zeros(count, dtype=np.bool_),
    )
    return StateSpace(Timeline(_DISK, DeviceContract(), requests, payload), _Acks(completed[4::5]))
