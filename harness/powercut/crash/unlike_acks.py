# SPDX-License-Identifier: Apache-2.0
"""Acks whose operations differ: one of each comes before a second one of any.

Operations are alike if the same kinds of writes (powercut.crash.kinds) were submitted between the
ack before and theirs, however many of each.  A workload that repeats one operation has few that
differ; one whose operations make different calls has nearly as many as calls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from powercut.crash.kinds import Kind
from powercut.crash.states import I64, StateSpace
from powercut.crash.survey import spread


def one_of_each(space: StateSpace, acks: I64, kinds: Sequence[Kind], seed: int) -> list[int]:
    """One of the instants `acks`, which are rising, for each operation that is unlike the others:
    rare ones first.  `kinds` are those of all requests.
    """
    alike: dict[frozenset[Kind], list[int]] = defaultdict(list)
    for ack, written in zip(acks.tolist(), _written(space, acks, kinds), strict=True):
        alike[written].append(ack)
    rare_first = sorted(alike.values(), key=len)
    return [int(spread(np.array(one, np.int64), seed)[0]) for one in rare_first]


def _written(space: StateSpace, acks: I64, kinds: Sequence[Kind]) -> list[frozenset[Kind]]:
    """The kinds of the writes that were submitted since the ack before, for each ack."""
    writes = np.flatnonzero(space.sets.is_write)
    operation = np.searchsorted(acks, space.timeline.requests.submitted_ns[writes], side="right")
    written: list[set[Kind]] = [set() for _ in acks]
    for write, number in zip(writes.tolist(), operation.tolist(), strict=True):
        if number < len(acks):
            written[number].add(kinds[write])
    return [frozenset(one) for one in written]
