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
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from powercut.crash.arrays import sorted_unique
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
    ordered = sorted_unique(instants)
    names = sorted(set(kinds))
    rank = {kind: number for number, kind in enumerate(names)}
    seen = _Glimpses(ordered, _walk(space, ordered, [rank[kind] for kind in kinds], names))
    most = min(_STAGES_MAX, max(_STAGES_FREE, len(ordered) // _INSTANTS_EACH))
    for detail in Detail:
        groups = seen.alike(detail)
        if len(groups) <= most:
            break
    stages = []
    for number, members in enumerate(groups):
        richest = max(members, key=lambda one: len(one.outstanding))
        durable = frozenset().union(*(one.durable for one in members))
        outstanding = tuple((names[kind], count) for kind, count in richest.outstanding)
        stages.append(
            Stage(
                number,
                richest.event,
                outstanding,
                frozenset(names[kind] for kind in durable),
                seen.instants(members),
            )
        )
    return tuple(stages), detail


class _Glimpse(NamedTuple):
    """One instant: its last `epochs`, and up to 3 `flushes`.  A kind is its rank among all."""

    event: str
    epochs: tuple[frozenset[int], ...]
    flushes: int
    outstanding: tuple[tuple[int, int], ...]
    durable: frozenset[int]

    def key(self, detail: Detail) -> object:
        left = frozenset(kind for kind, _ in self.outstanding)
        match detail:
            case Detail.EPOCHS:
                return self.event, self.epochs, self.outstanding
            case Detail.LAST_EPOCH:
                return self.event, self.flushes, self.epochs[-1:], left
            case Detail.OUTSTANDING:
                return self.event, left
        return self.event


class _Glimpses:
    """Those of all instants.  There are many instants and few different glimpses."""

    def __init__(self, ordered: I64, seen: Iterable[_Glimpse]) -> None:
        self._ordered = ordered
        self._numbers: dict[_Glimpse, int] = {}
        numbers = [self._numbers.setdefault(one, len(self._numbers)) for one in seen]
        self._of_instant = np.array(numbers, dtype=np.int64)

    def alike(self, detail: Detail) -> list[list[_Glimpse]]:
        """Glimpses that are the same in `detail`, all in the order of their first instants."""
        of_key: dict[object, list[_Glimpse]] = defaultdict(list)
        for glimpse in self._numbers:
            of_key[glimpse.key(detail)].append(glimpse)
        return list(of_key.values())

    def instants(self, members: Sequence[_Glimpse]) -> I64:
        """The instants of `members`, rising."""
        mine = np.zeros(len(self._numbers), dtype=np.bool_)
        mine[[self._numbers[one] for one in members]] = True
        return self._ordered[mine[self._of_instant]]


class _Walk:
    """The state of the walk through all events."""

    def __init__(self) -> None:
        self._left: dict[int, int] = {}
        self._outstanding: tuple[tuple[int, int], ...] | None = None
        self._epochs: tuple[frozenset[int], ...] = (frozenset(),)
        self._flushes = 1
        self._fresh: list[frozenset[int]] = [frozenset(), frozenset()]
        self._durable: frozenset[int] = frozenset()
        self.event = ""
        self._acked = False

    def begin(self) -> None:
        """An event other than an ack: a new operation has begun if an ack came before it."""
        if self._acked:
            self._epochs, self._flushes = (frozenset(),), 1
            self._fresh = [self._fresh[1], frozenset()]
            self._durable = self._fresh[0]
        self._acked = False

    def ack(self) -> None:
        self.event, self._acked = _ACK, True

    def flushed(self) -> None:
        self._epochs = (*self._epochs[1 - _EPOCHS :], frozenset())
        self._flushes += 1

    def submit(self, kind: int) -> None:
        self._count(kind, 1)
        if kind not in self._epochs[-1]:
            self._epochs = (*self._epochs[:-1], self._epochs[-1] | {kind})

    def make_durable(self, kind: int) -> None:
        self._count(kind, -1)
        if kind not in self._fresh[-1]:
            self._fresh[-1] |= {kind}
            self._durable = self._fresh[0] | self._fresh[1]

    def _count(self, kind: int, more: int) -> None:
        before = self._left.get(kind, 0)
        if before + more:
            self._left[kind] = before + more
        else:
            del self._left[kind]
        if before < _FEW or before + more < _FEW:
            self._outstanding = None

    def glimpse(self) -> _Glimpse:
        if self._outstanding is None:
            left = [(kind, min(count, _FEW)) for kind, count in self._left.items()]
            self._outstanding = tuple(sorted(left))
        return _Glimpse(
            self.event,
            self._epochs,
            min(self._flushes, _FEW),
            self._outstanding,
            self._durable,
        )


_DURABLE, _DONE, _SUBMITTED, _ACKED, _LOOK = range(5)


def _walk(
    space: StateSpace, ordered: I64, kinds: Sequence[int], names: Sequence[Kind]
) -> Iterator[_Glimpse]:
    """One for each of the instants, which are rising; `kinds` are those of requests, by `names`."""
    walk = _Walk()
    flushes = (space.timeline.requests.kind == int(RequestKind.FLUSH)).tolist()
    done = [f"done: {kind.name}" for kind in names]
    submitted = [f"submitted: {kind.name}" for kind in names]
    for what, index in _events(space, ordered):
        if what == _LOOK:
            yield walk.glimpse()
        elif what == _ACKED:
            walk.ack()
        elif what == _DURABLE:
            walk.make_durable(kinds[index])
        else:
            walk.begin()
            kind, flush = kinds[index], flushes[index]
            walk.event = submitted[kind] if what == _SUBMITTED else done[kind]
            if flush and what == _DONE:
                walk.flushed()
            elif what == _SUBMITTED and not flush:
                walk.submit(kind)


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
