# SPDX-License-Identifier: Apache-2.0
"""Whether a crash state lacks anything of what was written before some instant.

It lacks nothing if each byte is what it would be with every write that was issued by then: so what
is missing was overwritten, or discarded, and holds nothing.  What lay on the disk at power-on is
not looked at: a missing write of the same bytes counts as missing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.crash.applied import AppliedWrite
from powercut.crash.states import CrashState, StateSpace
from powercut.model.timeline import RequestKind

_WRITTEN: Final = 1
_DISCARDED: Final = 2

Span = tuple[int, int]
Bytes = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]


def lacks_nothing(space: StateSpace, state: CrashState, instant: int) -> bool:
    """Whether `state` has all that was issued before `instant`, which is its own or a later one."""
    if state.again is not None:
        return False
    whole = space.image_writes(CrashState(instant, tuple(space.volatile(instant).tolist())))
    there = space.image_writes(state)
    spans = _where_they_differ(there, whole, moved=bool(state.moves))
    has, wanted = _laid(space, there, spans), _laid(space, whole, spans)
    for (data, source), (full, full_source) in zip(has, wanted, strict=True):
        same = (source == full_source) & (data == full)
        if not (same | (full_source == _DISCARDED)).all():
            return False
    return True


def _where_they_differ(
    one: Sequence[AppliedWrite], other: Sequence[AppliedWrite], *, moved: bool
) -> list[Span]:
    """The places of what is in one of them alone, merged; of everything, if the order differs."""
    places = [
        Counter((part.request, part.offset, part.length) for part in of) for of in (one, other)
    ]
    differ = (places[0] | places[1]) if moved else (places[0] - places[1]) + (places[1] - places[0])
    merged: list[Span] = []
    for begin, end in sorted((offset, offset + length) for _, offset, length in differ):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def _laid(space: StateSpace, parts: Sequence[AppliedWrite], spans: Sequence[Span]) -> list[Bytes]:
    """What `parts`, one over the other, leave in `spans`, and whether a write has left it."""
    found = [
        (np.zeros(end - begin, dtype=np.uint8), np.zeros(end - begin, dtype=np.uint8))
        for begin, end in spans
    ]
    ends = [end for _, end in spans]
    kinds = space.timeline.requests.kind
    for part in parts:
        last = part.offset + part.length
        at = bisect_left(ends, part.offset + 1)
        while at < len(spans) and spans[at][0] < last:
            begin, end = spans[at]
            low, high = max(begin, part.offset), min(end, last)
            data, source = found[at]
            inside = slice(low - part.offset, high - part.offset)
            data[low - begin : high - begin] = 0 if part.data is None else part.data[inside]
            gone = kinds[part.request] == RequestKind.DISCARD
            source[low - begin : high - begin] = _DISCARDED if gone else _WRITTEN
            at += 1
    return found
