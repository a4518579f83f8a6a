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
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from powercut.crash.arrays import sorted_unique
from powercut.crash.kinds import Kind, Kinds
from powercut.crash.states import I64, StateSpace
from powercut.model.timeline import RequestKind
from powercut.model.units import NEVER

_FEW: Final = 3
_STAGES_MAX: Final = 512
_STAGES_FREE: Final = 64
_INSTANTS_EACH: Final = 4
_EPOCHS: Final = 6
_CHUNK_MAX: Final = 64
_KNOWN_MAX: Final = 1 << 16
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


def stages_of(space: StateSpace, instants: I64, kinds: Kinds) -> tuple[tuple[Stage, ...], Detail]:
    """The stages of `instants`, in the order of their first instant, and how finely they are told.

    Every instant belongs to one stage.
    """
    ordered = sorted_unique(instants)
    names = kinds.names
    seen = _Walk(names).through(_events(space, ordered, kinds))
    most = min(_STAGES_MAX, max(_STAGES_FREE, len(ordered) // _INSTANTS_EACH))
    for detail in Detail:
        groups = seen.alike(detail)
        if len(groups) <= most:
            break
    stages = []
    for number, (members, at) in enumerate(zip(groups, seen.instants(groups), strict=True)):
        richest = max(members, key=lambda one: len(one.outstanding))
        durable = frozenset().union(*(one.durable for one in members))
        outstanding = tuple((names[kind], count) for kind, count in richest.outstanding)
        stages.append(
            Stage(
                number,
                richest.event,
                outstanding,
                frozenset(names[kind] for kind in durable),
                ordered[at],
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
    """Those of all instants: `of_instant` says which of `different` each has.  There are many
    instants and few different glimpses.
    """

    def __init__(self, different: Sequence[_Glimpse], of_instant: I64) -> None:
        self._different = different
        self._of_instant = of_instant

    def alike(self, detail: Detail) -> list[list[_Glimpse]]:
        """Glimpses that are the same in `detail`, all in the order of their first instants."""
        of_key: dict[object, list[_Glimpse]] = defaultdict(list)
        for glimpse in self._different:
            of_key[glimpse.key(detail)].append(glimpse)
        return list(of_key.values())

    def instants(self, groups: Sequence[Sequence[_Glimpse]]) -> list[I64]:
        """The indices of the instants of each group, rising; every glimpse is in one."""
        if not groups:
            return []
        number = {glimpse: at for at, glimpse in enumerate(self._different)}
        group = np.zeros(len(number), dtype=np.int64)
        for at, members in enumerate(groups):
            group[[number[one] for one in members]] = at
        mine = group[self._of_instant]
        order = np.argsort(mine, kind="stable")
        return np.split(order, np.cumsum(np.bincount(mine, minlength=len(groups)))[:-1])


class _Rest(NamedTuple):
    """All of a walk but how many writes of each kind are left."""

    event: str = ""
    acked: bool = False
    epochs: tuple[frozenset[int], ...] = (frozenset(),)
    flushes: int = 1
    fresh: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
    durable: frozenset[int] = frozenset()


class _Walk:
    """The walk through all events, in chunks.

    What a workload does it does again and again, so most chunks have been walked through before
    in a like state, and end as they did then: with `rest` the same and, of each kind, as many
    writes left as it has or, of both, more than the chunk can take away and still leave few.
    """

    def __init__(self, names: Sequence[Kind]) -> None:
        self._words = [f"{what}: {kind.name}" for kind in names for what in ("done", "submitted")]
        self._left: dict[int, int] = {}
        self._rest = _Rest()
        self._outstanding: tuple[tuple[int, int], ...] | None = None
        self._numbers: dict[_Glimpse, int] = {}

    def through(self, events: I64) -> _Glimpses:
        raw, size = events.tobytes(), events.itemsize
        known: dict[tuple[_Rest, frozenset[tuple[int, int]], bytes], _Step] = {}
        parts = []
        for begin, end in pairwise(_chunks(events)):
            chunk = raw[begin * size : end * size]
            plenty = _FEW + end - begin
            left = frozenset((kind, min(count, plenty)) for kind, count in self._left.items())
            step = known.get((self._rest, left, chunk))
            if step is None:
                if len(known) >= _KNOWN_MAX:
                    known.clear()
                key = self._rest, left, chunk
                step = known[key] = self._step(events[begin:end].tolist())
            else:
                self._rest = step.rest
                for kind, more in step.more:
                    self._count(kind, more)
            parts.append(step.seen)
        seen = np.frombuffer(b"".join(parts), dtype=np.int64)
        return _Glimpses(list(self._numbers), seen)

    def _step(self, events: list[int]) -> _Step:
        before = self._left.copy()
        self._outstanding = None
        seen = []
        for event in events:
            what, kind, flush = event % _CODES, event // _CODES >> 1, event // _CODES & 1
            if what == _LOOK:
                seen.append(self._numbers.setdefault(self._glimpse(), len(self._numbers)))
            elif what == _ACKED:
                self._rest = self._rest._replace(event=_ACK, acked=True)
            elif what == _DURABLE:
                self._make_durable(kind)
            else:
                self._begin(self._words[2 * kind + (what == _SUBMITTED)])
                if flush and what == _DONE:
                    self._flushed()
                elif what == _SUBMITTED and not flush:
                    self._submit(kind)
        more = {kind: self._left.get(kind, 0) - before.get(kind, 0) for kind in before | self._left}
        changed = tuple((kind, count) for kind, count in more.items() if count)
        return _Step(self._rest, changed, np.array(seen, dtype=np.int64).tobytes())

    def _begin(self, event: str) -> None:
        """An event other than an ack: a new operation has begun if an ack came before it."""
        rest = self._rest
        if rest.acked:
            fresh = rest.fresh[1], frozenset[int]()
            rest = rest._replace(
                acked=False, epochs=(frozenset(),), flushes=1, fresh=fresh, durable=fresh[0]
            )
        self._rest = rest._replace(event=event)

    def _flushed(self) -> None:
        rest = self._rest
        epochs = (*rest.epochs[1 - _EPOCHS :], frozenset[int]())
        self._rest = rest._replace(epochs=epochs, flushes=min(rest.flushes + 1, _FEW))

    def _submit(self, kind: int) -> None:
        self._count(kind, 1)
        epochs = self._rest.epochs
        if kind not in epochs[-1]:
            self._rest = self._rest._replace(epochs=(*epochs[:-1], epochs[-1] | {kind}))

    def _make_durable(self, kind: int) -> None:
        self._count(kind, -1)
        before, now = self._rest.fresh
        if kind not in now:
            now |= {kind}
            self._rest = self._rest._replace(fresh=(before, now), durable=before | now)

    def _count(self, kind: int, more: int) -> None:
        before = self._left.get(kind, 0)
        if before + more:
            self._left[kind] = before + more
        else:
            del self._left[kind]
        if before < _FEW or before + more < _FEW:
            self._outstanding = None

    def _glimpse(self) -> _Glimpse:
        if self._outstanding is None:
            left = [(kind, min(count, _FEW)) for kind, count in self._left.items()]
            self._outstanding = tuple(sorted(left))
        rest = self._rest
        return _Glimpse(rest.event, rest.epochs, rest.flushes, self._outstanding, rest.durable)


class _Step(NamedTuple):
    """What a chunk comes to: `more` writes left of some kinds, and the glimpses `seen`."""

    rest: _Rest
    more: tuple[tuple[int, int], ...]
    seen: bytes


_DURABLE, _DONE, _SUBMITTED, _ACKED, _LOOK = range(5)
_CODES: Final = 5


def _chunks(events: I64) -> list[int]:
    """Bounds of stretches that a workload is likely to repeat: operations, else epochs."""
    what, flush = events % _CODES, events // _CODES & 1
    acked = what == _ACKED
    if int(acked.sum()) * _CHUNK_MAX < len(events):
        acked |= (what == _DONE) & (flush == 1)
    ends = np.flatnonzero(acked) + 1
    longest = np.arange(0, len(events), _CHUNK_MAX)
    return list(sorted_unique(np.concatenate([[0, len(events)], ends, longest])).tolist())


def _events(space: StateSpace, ordered: I64, kinds: Kinds) -> I64:
    """Everything that happens, in order, and the looks at it: which of the above, whether of a
    flush, and the rank of the kind, as one number.
    """
    requests = space.timeline.requests
    code = (2 * kinds.rank + (requests.kind == int(RequestKind.FLUSH))) * _CODES
    nothing = np.empty(0, np.int64)
    columns = [
        (_DURABLE, np.where(space.sets.is_write, space.sets.durable_ns, NEVER), code),
        (_DONE, space.completed_ns, code),
        (_SUBMITTED, requests.submitted_ns, code),
        (_ACKED, nothing if space.claims is None else space.claims.ack_ns, 0),
        # Strictly before: what happens at an instant has not happened at it.
        (_LOOK, ordered - 1, 0),
    ]
    when = np.concatenate([np.asarray(times, dtype=np.int64) for _, times, _ in columns])
    what = np.concatenate([np.full(len(times), one) + at for one, times, at in columns])
    order = np.argsort(when, kind="stable")  # of one instant as above, then by their number
    return np.asarray(what[order[when[order] < NEVER]])
