# SPDX-License-Identifier: Apache-2.0
"""Acks whose operations differ: one of each sort.

What an operation forgot to write is not outstanding at its ack; that it is missing shows in how the
operation differs from others.  Two operations are of one sort if

1. the same kinds of writes (powercut.crash.kinds) were submitted between the ack before and theirs,
   however many of each; more finely
2. also with as many flushes, up to three, and the same kinds outstanding at the ack.

A workload that repeats one operation has few sorts; one whose operations make different calls has
nearly as many as calls.  That operations of one sort are alike is a guess: it orders states, and no
probability follows from it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import Final

import numpy as np

from powercut.crash.kinds import Kind
from powercut.crash.permutation import permuted
from powercut.crash.states import I64, StateSpace
from powercut.model.timeline import RequestKind

_FLUSHES_MAX: Final = 3


def one_of_each_sort(
    space: StateSpace, acks: I64, kinds: Sequence[Kind], seed: int
) -> tuple[int, ...]:
    """Of the instants `acks`, which are rising, one for each sort, rare sorts first: those of the
    coarse sorts, then those of finer ones.  `kinds` are those of all requests.
    """
    chance = {
        ack: rank for rank, ack in enumerate(permuted(acks, seed, "one of each sort").tolist())
    }
    coarse = _written(space, acks, kinds)
    fine = [
        (written, flushes, frozenset(kinds[write] for write in space.volatile(ack).tolist()))
        for ack, written, flushes in zip(acks.tolist(), coarse, _flushes(space, acks), strict=True)
    ]
    chosen = dict.fromkeys(_first_of_each(acks, coarse, chance, ()))
    chosen |= dict.fromkeys(_first_of_each(acks, fine, chance, chosen))
    return tuple(chosen)


def _first_of_each(
    acks: I64, sorts: Sequence[Hashable], chance: dict[int, int], seen: Iterable[int]
) -> list[int]:
    """The ack that chance has first of each sort none of which was `seen`."""
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for ack, sort in zip(acks.tolist(), sorts, strict=True):
        alike[sort].append(ack)
    seen = frozenset(seen)
    groups = [
        sorted(members, key=chance.__getitem__)
        for members in alike.values()
        if seen.isdisjoint(members)
    ]
    groups.sort(key=lambda members: (len(members), chance[members[0]]))
    return [members[0] for members in groups]


def _written(space: StateSpace, acks: I64, kinds: Sequence[Kind]) -> list[frozenset[Kind]]:
    """The kinds of the writes that were submitted since the ack before, for each ack."""
    writes = np.flatnonzero(space.sets.is_write)
    operation = np.searchsorted(acks, space.timeline.requests.submitted_ns[writes], side="right")
    written: list[set[Kind]] = [set() for _ in acks]
    for write, number in zip(writes.tolist(), operation.tolist(), strict=True):
        if number < len(acks):
            written[number].add(kinds[write])
    return [frozenset(one) for one in written]


def _flushes(space: StateSpace, acks: I64) -> list[int]:
    """How many were submitted since the ack before, for each ack; more than three are three."""
    requests = space.timeline.requests
    submitted = requests.submitted_ns[requests.kind == RequestKind.FLUSH]
    operation = np.searchsorted(acks, submitted, side="right")
    counts = np.bincount(operation, minlength=len(acks) + 1)[: len(acks)]
    return [int(count) for count in np.minimum(counts, _FLUSHES_MAX)]
