# SPDX-License-Identifier: Apache-2.0
"""A state in which operations are lost: when they were acknowledged, and for want of what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from powercut.crash.states import CrashState, StateSpace
from powercut.model.operations import OperationHistory
from powercut.model.timeline import RequestKind
from powercut.model.units import NEVER
from powercut.model.verdict import LsnRange
from powercut.recording.disk_places import Places

_PLACES_MAX: Final = 4


def story_of(
    history: OperationHistory,
    space: StateSpace,
    state: CrashState,
    lost: Sequence[LsnRange],
    places: Places,
) -> tuple[str, ...]:
    """Lines, the acknowledgements first; times in ms before the cut."""
    return (
        *_acknowledged(history, state.instant, lost),
        *_last_requests(space, state.instant),
        _missing(space, state, places, acknowledged=bool(lost)),
    )


def _acknowledged(
    history: OperationHistory, instant: int, lost: Sequence[LsnRange]
) -> tuple[str, ...]:
    chosen = np.zeros(len(history.acked), dtype=bool)
    for span in lost:
        chosen |= (history.acked >= span.first) & (history.acked <= span.last)
    acks = history.ack_ns[chosen & (history.ack_ns < instant)]
    if not len(acks):
        return ()
    if len(acks) == 1:
        return (f"it was acknowledged {_before(instant, acks[0])}",)
    return (
        f"they were acknowledged from {_before(instant, acks[0])} to {_before(instant, acks[-1])}",
    )


def _last_requests(space: StateSpace, instant: int) -> tuple[str, ...]:
    requests = space.timeline.requests
    told = []
    for flush, name in ((False, "write"), (True, "flush")):
        kind = (requests.kind == RequestKind.FLUSH) == flush
        done = requests.completed_ns[kind & (requests.completed_ns < min(instant, int(NEVER)))]
        told.append(f"the last {name} was done {_before(instant, done.max())}" if len(done) else
                    f"no {name} was done")  # fmt: skip
    return (", ".join(told),)


def _missing(space: StateSpace, state: CrashState, places: Places, *, acknowledged: bool) -> str:
    kept = set(state.survivors)
    missing = [write for write in space.volatile(state.instant).tolist() if write not in kept]
    if not missing:
        why = "what was acknowledged had not been sent to it"
        then = why if acknowledged else "the next one had not been sent to it"
        return f"no write that the disk was given is missing: {then}"
    found: Counter[str] = Counter()
    for write in missing:
        if space.timeline.requests.data_offset[write] >= 0:
            offset = int(space.timeline.requests.offset[write])
            payload = space.timeline.payload(write).tobytes()
            found.update({part.what for part in places.parts(offset, payload)})
    told = ", ".join(f"{what} ({count})" for what, count in found.most_common(_PLACES_MAX))
    return f"missing writes by what they hold: {told}" if told else "missing: discards and zeroes"


def _before(instant: int, then: int) -> str:
    return f"{(instant - int(then)) / 1e6:,.1f} ms before the cut"
