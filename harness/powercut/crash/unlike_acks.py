# SPDX-License-Identifier: Apache-2.0
"""Acks whose operations differ: one of each sort.

What an operation forgot to write is not outstanding at its ack; that it is missing shows in how the
operation differs from others.  Two operations are of one sort if

1. the same kinds of writes (powercut.crash.kinds) were submitted between the ack before and theirs,
   however many of each; more finely
2. also with as many flushes, up to three, and the same kinds outstanding at the ack; most finely
3. also with as many writes of each kind, up to three: one of two files alike may be forgotten.

A workload that repeats one operation has few sorts; one whose operations make different calls has
nearly as many as calls.  That operations of one sort are alike is a guess: it orders states, and no
probability follows from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Final

import numpy as np

from powercut.crash.arrays import sorted_unique
from powercut.crash.folder import FolderSpace
from powercut.crash.kinds import Kinds
from powercut.crash.permutation import permuted
from powercut.crash.states import I64, StateSpace
from powercut.model.timeline import RequestKind

_FLUSHES_MAX: Final = 3
_COUNTS: Final = 4


def one_of_each_sort(space: StateSpace, acks: I64, kinds: Kinds, seed: int) -> tuple[int, ...]:
    """Of the instants `acks`, which are rising, one for each sort, rare sorts first: those of the
    coarse sorts, then those of finer ones.  `kinds` are those of all requests.
    """
    chance = np.zeros(len(acks), dtype=np.int64)
    order = acks.searchsorted(permuted(acks, seed, "one of each sort"))
    chance[order] = np.arange(len(acks))
    coarse, counted = _written(space, acks, kinds)
    fine = _together(coarse, _flushes(space, acks), _volatile(space, acks, kinds))
    chosen = np.empty(0, dtype=np.int64)
    for sorts in (coarse, fine, _together(fine, counted)):
        chosen = np.concatenate([chosen, _first_of_each(sorts, chance, chosen)])
    return tuple(acks[chosen].tolist())


def _first_of_each(sorts: I64, chance: I64, seen: I64) -> I64:
    """The ack that chance has first of each sort none of which was `seen`, by their indices."""
    order = np.lexsort((chance, sorts))
    _, first, count = np.unique(sorts[order], return_index=True, return_counts=True)
    head = order[first]
    left = ~np.isin(sorts[head], sorts[seen])
    head, count = head[left], count[left]
    return np.asarray(head[np.lexsort((chance[head], count))])


def _together(*sorts: I64) -> I64:
    return _numbers(np.stack(sorts, axis=1).ravel(), np.full(len(sorts[0]), len(sorts)))


def _written(space: StateSpace, acks: I64, kinds: Kinds) -> tuple[I64, I64]:
    """Which kinds of writes were submitted since the ack before, for each ack; and how many of
    each, more than three being three."""
    writes = np.flatnonzero(space.sets.is_write)
    operation = np.searchsorted(acks, space.timeline.requests.submitted_ns[writes], side="right")
    pairs = np.stack([operation, kinds.rank[writes]], axis=1)
    found, count = np.unique(pairs, axis=0, return_counts=True)
    owner, kind = found.T
    often = kind * _COUNTS + np.minimum(count, _COUNTS - 1)
    return _sets([(owner, kind)], len(acks)), _sets([(owner, often)], len(acks))


def _volatile(space: StateSpace, acks: I64, kinds: Kinds) -> I64:
    """Which kinds are outstanding at each ack."""
    if isinstance(space, FolderSpace):
        return _sets([_outstanding(space, acks, kinds)], len(acks))
    at_acks = space.volatile_at(acks)
    return _sets(((at, kinds.rank[write]) for at, write in at_acks), len(acks))


def _outstanding(space: FolderSpace, acks: I64, kinds: Kinds) -> tuple[I64, I64]:
    """The indices of acks, and the kinds outstanding there: of a folder no write hides another, so
    that counting does, however many there are.
    """
    writes = np.flatnonzero(space.sets.is_write & (space.end > space.begin))
    counts = np.zeros((len(kinds.names), len(acks) + 1), dtype=np.int64)
    for instants, more in ((space.sets.submitted_ns, 1), (space.sets.durable_ns, -1)):
        at = acks.searchsorted(instants[writes], side="right")
        np.add.at(counts, (kinds.rank[writes], at), more)
    kind, ack = np.nonzero(np.cumsum(counts, axis=1)[:, : len(acks)])
    return ack, kind


def _sets(pairs: Iterable[tuple[I64, I64]], count: int) -> I64:
    """Of the first `count` sets the numbers; equal sets have equal ones.  Each pair says of sets
    which one has which member.
    """
    largest = 2**31
    known = [sorted_unique(owner * largest + member) for owner, member in pairs]
    owner, member = np.divmod(
        sorted_unique(np.concatenate([np.empty(0, dtype=np.int64), *known])), largest
    )
    return _numbers(member, np.bincount(owner, minlength=count)[:count])


def _numbers(values: I64, lengths: I64) -> I64:
    """Of stretches of `values`, each of its length, the numbers; equal ones have equal numbers."""
    raw, ends = values.astype(np.int64).tobytes(), (np.cumsum(lengths) * 8).tolist()
    known: dict[bytes, int] = {}
    numbers = [known.setdefault(raw[begin:end], len(known)) for begin, end in pairwise([0, *ends])]
    return np.array(numbers, dtype=np.int64)


def _flushes(space: StateSpace, acks: I64) -> I64:
    """How many were submitted since the ack before, for each ack; more than three are three."""
    requests = space.timeline.requests
    submitted = requests.submitted_ns[requests.kind == RequestKind.FLUSH]
    operation = np.searchsorted(acks, submitted, side="right")
    counts = np.bincount(operation, minlength=len(acks) + 1)[: len(acks)]
    return np.minimum(counts, _FLUSHES_MAX)
