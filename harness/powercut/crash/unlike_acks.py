# SPDX-License-Identifier: Apache-2.0
"""Acks whose operations differ: one of each comes before a second one of any.

Operations are alike if the same kinds of writes (powercut.crash.kinds) were submitted between the
ack before and theirs, however many of each.  A workload that repeats one operation has few that
differ; one whose operations make different calls has nearly as many as calls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Final

import numpy as np

from powercut.crash.kinds import Kind
from powercut.crash.states import I64, StateSpace
from powercut.crash.survey import spread

_FEW: Final = 3
"""A workload repeats itself if an operation is repeated more often than this, on average."""


@dataclass(frozen=True)
class UnlikeAcks:
    """Instants just after acks: `first` has one for each operation that is unlike the others, rare
    ones first, and `later` the rest, again one of each before a second one of any.
    """

    first: tuple[int, ...]
    later: tuple[int, ...]

    @property
    def mostly(self) -> bool:
        """Whether the workload does something else all the time, instead of repeating itself."""
        return _FEW * len(self.first) >= len(self.first) + len(self.later) > 0


def unlike_acks(space: StateSpace, acks: I64, kinds: Sequence[Kind], seed: int) -> UnlikeAcks:
    """The instants `acks`, which are rising, in that order.  `kinds` are those of all requests."""
    alike: dict[frozenset[Kind], list[int]] = defaultdict(list)
    for ack, written in zip(acks.tolist(), _written(space, acks, kinds), strict=True):
        alike[written].append(ack)
    spread_out = [
        spread(np.array(one, np.int64), seed).tolist() for one in sorted(alike.values(), key=len)
    ]
    rounds = [[one for one in nth if one is not None] for nth in zip_longest(*spread_out)]
    later = chain.from_iterable(rounds[1:])
    return UnlikeAcks(tuple(rounds[0]) if rounds else (), tuple(later))


def _written(space: StateSpace, acks: I64, kinds: Sequence[Kind]) -> list[frozenset[Kind]]:
    """The kinds of the writes that were submitted since the ack before, for each ack."""
    writes = np.flatnonzero(space.sets.is_write)
    operation = np.searchsorted(acks, space.timeline.requests.submitted_ns[writes], side="right")
    written: list[set[Kind]] = [set() for _ in acks]
    for write, number in zip(writes.tolist(), operation.tolist(), strict=True):
        if number < len(acks):
            written[number].add(kinds[write])
    return [frozenset(one) for one in written]
