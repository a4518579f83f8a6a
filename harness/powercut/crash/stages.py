# SPDX-License-Identifier: Apache-2.0
"""At which stage of its work a recording is at an instant, so that like instants are told.

A program that makes its work durable does the same again and again: it writes, flushes, writes,
flushes, acknowledges.  A stage is what has happened since the last ack (or, of an ack, since the
one before), and which kinds of writes are outstanding.  It may be told finely or coarsely; the
finest of `Detail` is taken that leaves several instants to a stage, since stages that are all
different group nothing.
"""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from powercut.crash.kinds import Kind
from powercut.crash.states import I64, StateSpace
from powercut.model.timeline import RequestKind
from powercut.model.units import NEVER

_FEW: Final = 3
_STAGES_MAX: Final = 512
_STAGES_FREE: Final = 64
_INSTANTS_EACH: Final = 4
_EPOCHS: Final = 6
_ACK: Final = "ack"


class Detail(enum.IntEnum):
    """What two instants of one stage have in common, from fine to coarse."""

    EPOCHS = 0  # the kinds written between the flushes since the last ack, and how many are left
    LAST_EPOCH = 1  # those since the last flush, how many flushes, and which kinds are left
    OUTSTANDING = 2  # the last event, and which kinds are left
    EVENT = 3  # the last event


@dataclass(frozen=True)
class Stage:
    """Instants that are alike.

    `outstanding` counts the volatile writes by kind at one of them, the `example`; up to 3 are
    told apart.  `event` is the last thing that happened.  `durable` are the kinds that have become
    durable since the last ack but one.
    """

    number: int
    event: str
    outstanding: tuple[tuple[Kind, int], ...]
    durable: frozenset[Kind]
    instants: I64 = field(compare=False)

    @property
    def after_ack(self) -> bool:
        """Whether an operation has just been acknowledged."""
        return self.event == _ACK


def stages_of(
    space: StateSpace, instants: I64, kinds: Sequence[Kind]
) -> tuple[tuple[Stage, ...], Detail]:
    """The stages of `instants`, in the order of their first instant, and how finely they are told.

    Every instant belongs to one stage.
    """
    ordered = np.unique(instants)
    seen = list(_walk(space, ordered, kinds))
    most = min(_STAGES_MAX, max(_STAGES_FREE, len(ordered) // _INSTANTS_EACH))
    for detail in Detail:
        of_key: dict[object, list[int]] = defaultdict(list)
        for index, glimpse in enumerate(seen):
            of_key[glimpse.key(detail)].append(index)
        if len(of_key) <= most:
            break
    stages = []
    for number, members in enumerate(of_key.values()):
        richest = max((seen[index] for index in members), key=lambda one: len(one.outstanding))
        durable = frozenset().union(*(seen[index].durable for index in members))
        stages.append(Stage(number, richest.event, richest.outstanding, durable, ordered[members]))
    return tuple(stages), detail


@dataclass(frozen=True)
class _Glimpse:
    """One instant."""

    event: str
    epochs: tuple[frozenset[Kind], ...]
    outstanding: tuple[tuple[Kind, int], ...]
    durable: frozenset[Kind]

    def key(self, detail: Detail) -> object:
        left = frozenset(kind for kind, _ in self.outstanding)
        match detail:
            case Detail.EPOCHS:
                return self.event, self.epochs[-_EPOCHS:], self.outstanding
            case Detail.LAST_EPOCH:
                return self.event, min(len(self.epochs), _FEW), self.epochs[-1:], left
            case Detail.OUTSTANDING:
                return self.event, left
        return self.event


@dataclass
class _Walk:
    """The state of the walk through all events."""

    left: Counter[Kind] = field(default_factory=Counter)
    epochs: list[set[Kind]] = field(default_factory=lambda: [set()])
    fresh: list[set[Kind]] = field(default_factory=lambda: [set(), set()])
    event: str = ""
    _acked: bool = False

    def begin(self) -> None:
        """An event other than an ack: a new operation has begun if an ack came before it."""
        if self._acked:
            self.epochs = [set()]
            self.fresh = [self.fresh[1], set()]
        self._acked = False

    def ack(self) -> None:
        self.event, self._acked = _ACK, True

    def glimpse(self) -> _Glimpse:
        return _Glimpse(
            self.event,
            tuple(frozenset(one) for one in self.epochs),
            tuple(sorted((kind, min(n, _FEW)) for kind, n in self.left.items() if n)),
            frozenset(self.fresh[0] | self.fresh[1]),
        )


_DURABLE, _DONE, _SUBMITTED, _ACKED, _LOOK = range(5)


def _walk(space: StateSpace, ordered: I64, kinds: Sequence[Kind]) -> Iterator[_Glimpse]:
    """One for each of the instants, which are rising."""
    walk = _Walk()
    for what, index in _events(space, ordered):
        if what == _LOOK:
            yield walk.glimpse()
            continue
        if what == _ACKED:
            walk.ack()
            continue
        kind = kinds[index]
        if what == _DURABLE:
            walk.left[kind] -= 1
            walk.fresh[-1].add(kind)
            continue
        walk.begin()
        flush = space.timeline.requests.kind[index] == RequestKind.FLUSH
        walk.event = f"{'submitted' if what == _SUBMITTED else 'done'}: {kind.name}"
        if flush and what == _DONE:
            walk.epochs.append(set())
        elif what == _SUBMITTED and not flush:
            walk.left[kind] += 1
            walk.epochs[-1].add(kind)


def _events(space: StateSpace, ordered: I64) -> Iterator[tuple[int, int]]:
    """Everything that happens, in order, and the looks at it: (what, request or number)."""
    requests = space.timeline.requests
    writes = space.sets.is_write
    columns = [
        (_DURABLE, np.where(writes, space.sets.durable_ns, NEVER)),
        (_DONE, space.completed_ns),
        (_SUBMITTED, requests.submitted_ns),
        (_ACKED, np.empty(0, np.int64) if space.claims is None else space.claims.ack_ns),
        # Strictly before: what happens at an instant has not happened at it.
        (_LOOK, ordered - 1),
    ]
    when = np.concatenate([np.asarray(times, dtype=np.int64) for _, times in columns])
    what = np.concatenate([np.full(len(times), code) for code, times in columns])
    which = np.concatenate([np.arange(len(times)) for _, times in columns])
    order = np.lexsort((which, what, when))
    order = order[when[order] < NEVER]
    yield from zip(what[order].tolist(), which[order].tolist(), strict=True)
