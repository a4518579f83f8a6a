# SPDX-License-Identifier: Apache-2.0
"""Writes as they are laid over a base image: whole, or what is left of them when they are torn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.model.timeline import RequestKind, Timeline

NO_REQUEST: Final = -1
_CARRIES: Final = int(RequestKind.WRITE)  # the enumeration takes 20 times as long to look up


@dataclass(frozen=True)
class Kept:
    """The bytes `begin` to `end` - 1 of the disk, of a torn write, that survived."""

    write: int
    begin: int
    end: int


@dataclass(frozen=True)
class AppliedWrite:
    """Bytes to lay over the base image at `offset`; `data` None means `length` zeroes.

    `request` is `NO_REQUEST` for what a recovery wrote.
    """

    request: int
    offset: int
    length: int
    data: npt.NDArray[np.uint8] | None


def applied_parts(
    timeline: Timeline, write: int, kept: Sequence[Kept] | None = None
) -> list[AppliedWrite]:
    """What reaches the medium of `write`: all of it, or what is `kept`, in that order."""
    requests = timeline.requests
    begin = int(requests.offset[write])
    end = begin + int(requests.length[write])
    carries = requests.kind[write] == _CARRIES
    data = timeline.payload(write) if carries else None
    applied = []
    for part in [Kept(write, begin, end)] if kept is None else kept:
        low, high = max(part.begin, begin), min(part.end, end)
        if high > low:
            there = None if data is None else data[low - begin : high - begin]
            applied.append(AppliedWrite(write, low, high - low, there))
    return applied
