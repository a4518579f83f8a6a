# SPDX-License-Identifier: Apache-2.0
"""The order in which crash states are looked at: one for all recordings, so that a small budget
sees most.

States come from streams in turn:

- *sorts*: nothing but what is durable, just after the ack of one operation of each sort, rare ones
  first;
- *draws*: the same state after acks drawn at random.  A fault that leaves no trace in how
  operations look is met in proportion to its rarity and to nothing else, so the chance of that is
  known (powercut.model.confidence);
- *groups* and *coins* (powercut.crash.representatives);
- *disks*, where there are several: just after acks one of them loses what is volatile while all
  others keep it, or it alone keeps it, each in turn;
- of the policies that were asked for without `representatives`, one state each in turn, at instants
  drawn at random.

1. Where there are few acks, and a limit that has room for them, all of them come first, in order of
   time.
2. The streams have equal turns for the first `FEW` states.
3. Then acks have three of four turns, where there are several disks two of three, until a fault in
   one operation of `RARE` would be met with a probability of `ENOUGH`.
4. Equal turns again, until all streams have ended, and then a sweep as `Exploration` makes it.
"""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, cycle, pairwise, product
from math import ceil
from typing import Final

import numpy as np

from powercut.crash.arrays import sorted_unique
from powercut.crash.explore import I64, Coverage, InstantKind, events, in_blocks
from powercut.crash.folder import FolderSpace
from powercut.crash.kinds import Kinds, Names
from powercut.crash.policies import POLICIES
from powercut.crash.representatives import Representatives, permuted
from powercut.crash.shapes import POLICY
from powercut.crash.states import CrashState, Model, StateSpace
from powercut.model.confidence import AcksLookedAt
from powercut.model.errors import UsageError
from powercut.model.timeline import RequestKind
from powercut.model.units import NEVER

AT_ACKS: Final = "durable-only"
"""The policy of the states just after acks."""

ONE_DISK: Final = "one-disk"

ALL_POLICIES: Final = (POLICY, *POLICIES)
"""What is asked for if nothing else is."""

FEW: Final = 64
RARE: Final = 100
ENOUGH: Final = 0.95

_FEW_ACKS: Final = 32

_TRIES: Final = 8
"""Instants at which a policy that finds nothing may look before it is another's turn."""


class _Stream(enum.Enum):
    SORTS = enum.auto()
    DRAWS = enum.auto()
    GROUPS = enum.auto()
    COINS = enum.auto()
    DISKS = enum.auto()
    OTHERS = enum.auto()


_EQUAL: Final = (
    _Stream.SORTS, _Stream.GROUPS, _Stream.OTHERS, _Stream.DRAWS, _Stream.COINS, _Stream.OTHERS,
    _Stream.DISKS,
)  # fmt: skip
_MOSTLY_ACKS: Final = (
    _Stream.SORTS, _Stream.DRAWS, _Stream.DRAWS, _Stream.GROUPS, _Stream.OTHERS,
    _Stream.SORTS, _Stream.DRAWS, _Stream.DRAWS, _Stream.COINS, _Stream.OTHERS, _Stream.DISKS,
)  # fmt: skip


@dataclass
class Order(Representatives):
    """An iterator over distinct states, as `Exploration`; see the module for the order."""

    _at_acks: set[int] = field(default_factory=set, init=False)
    _drawn_acks: int = field(default=0, init=False)
    _grouped: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._grouped = POLICY in self.policies
        super().__post_init__()

    def __iter__(self) -> Iterator[CrashState]:
        if self.model is Model.EXACT:
            yield from self._first()
            if not self._full:
                yield from self._in_turn()
        if not self._full:
            yield from super().__iter__()

    def coverage(self) -> Coverage:
        drawn = super().coverage()
        if self.model is not Model.EXACT:
            return drawn
        every = len(events(self.space, [InstantKind.ACK]))
        acks = AcksLookedAt(every, len(self._at_acks), self._drawn_acks)
        return replace(drawn, acks=acks, groups=drawn.groups if self._grouped else None)

    # --- turns ------------------------------------------------------------------------------

    def _in_turn(self) -> Iterator[CrashState]:
        streams = self._streams()
        for turn in self._turns():
            if not streams:
                return
            if turn not in streams:
                continue
            state = next(streams[turn], None)
            if self._full:
                return
            if state is None:
                del streams[turn]
            else:
                yield state

    def _turns(self) -> Iterator[_Stream]:
        equal, mostly_acks = cycle(_EQUAL), cycle(_MOSTLY_ACKS)
        while True:
            long_enough = len(self._seen) >= FEW and len(self._acks) >= RARE and not self._met
            yield next(mostly_acks if long_enough else equal)

    @property
    def _met(self) -> bool:
        """Whether acks enough were looked at: as `AcksLookedAt.chance` says, of which each call
        takes long after many acks."""
        every = len(self._acks)
        few_left = every - len(self._at_acks) < every // RARE
        return few_left or self._drawn_acks >= self._draws_enough

    @cached_property
    def _draws_enough(self) -> int:
        every = len(self._acks)
        # With repetition it would take a few more.
        most = ceil(every * (1 - (1 - ENOUGH) ** (1 / (every // RARE)))) + 1
        return bisect_left(
            range(min(most, every)),
            ENOUGH,
            key=lambda drawn: AcksLookedAt(every, 0, drawn).chance(RARE),
        )

    def _streams(self) -> dict[_Stream, Iterator[CrashState]]:
        streams: dict[_Stream, Iterator[CrashState]] = {}
        if self._grouped or AT_ACKS in self.policies:
            draws = self._draws()
            streams[_Stream.SORTS] = chain(self._after_acks(self._sorts), draws)
            streams[_Stream.DRAWS] = draws
        if self._grouped:
            streams[_Stream.GROUPS] = (state for _, state in self.labelled())
            streams[_Stream.COINS] = self._by_coins()
            if self.space.timeline.disks:
                streams[_Stream.DISKS] = self._by_disks()
        elif set(self.policies) - {AT_ACKS}:
            streams[_Stream.OTHERS] = self._others()
        return streams

    # --- acks -------------------------------------------------------------------------------

    @cached_property
    def _acks(self) -> I64:
        acks = events(self.space, [InstantKind.ACK])
        instants = np.append(np.sort(self.instants), NEVER)
        return np.asarray(acks[instants[instants.searchsorted(acks)] == acks])

    @property
    def _sorts(self) -> Sequence[int]:
        return one_of_each_sort(self.space, self._acks, self._kinds, self.seed)

    def _first(self) -> Iterator[CrashState]:
        most = _FEW_ACKS if self.limit is None else min(_FEW_ACKS, self.limit)
        if len(self._acks) <= most and (self._grouped or AT_ACKS in self.policies):
            yield from self._after_acks(self._acks.tolist())
            self._all_acks = not self._full

    def _after_acks(self, acks: Sequence[int]) -> Iterator[CrashState]:
        for instant in acks:
            if self._full:
                return
            if instant not in self._at_acks:
                yield from self._after_ack(instant)

    def _draws(self) -> Iterator[CrashState]:
        for instant in permuted(self._acks, self.seed, "acks").tolist():
            if instant in self._at_acks:
                continue
            states = list(self._after_ack(instant))
            if self._full:
                return
            self._drawn_acks += 1
            yield from states
        self._all_acks = True

    def _after_ack(self, instant: int) -> Iterator[CrashState]:
        """Nothing but what is durable; no state if the same one was drawn before."""
        state = CrashState(instant, (), policy=AT_ACKS)
        new = self._is_new(state)
        if not self._full:
            self._at_acks.add(instant)
        if new:
            yield state

    def _by_disks(self) -> Iterator[CrashState]:
        turns = list(product(self.space.timeline.disks, (False, True)))
        instants = permuted(self._acks, self.seed, ONE_DISK).tolist()
        for nth, (at, instant) in product(range(len(turns)), enumerate(instants)):
            disk, alone = turns[(at + nth) % len(turns)]
            volatile = self.space.volatile(instant)
            begin = self.space.begin[volatile]
            there = (disk.begin <= begin) & (begin < disk.end)
            state = CrashState(instant, tuple(volatile[there == alone].tolist()), policy=ONE_DISK)
            if self._is_legal(state) and self._is_new(state):
                yield state
            if self._full:
                return

    # --- policies that were asked for -------------------------------------------------------

    def _others(self) -> Iterator[CrashState]:
        orders = {
            name: iter(permuted(self.instants, self.seed, name).tolist())
            for name in self.policies
            if name != AT_ACKS
        }
        while orders:
            for name in tuple(orders):
                states, ended = self._next_of(name, orders[name])
                if self._full:
                    return
                if ended:
                    del orders[name]
                yield from states

    def _next_of(self, name: str, instants: Iterator[int]) -> tuple[list[CrashState], bool]:
        """The next new state of a policy, if it is found soon; whether the instants have ended."""
        for _ in range(_TRIES):
            instant = next(instants, None)
            if instant is None:
                return [], True
            self._looked_at[instant] = self._legal(instant)
            states = list(self._visit(instant, [name], 0, 1))
            if states or self._full:
                return states, False
        return [], False


# Acks whose operations differ: one of each sort.
#
# What an operation forgot to write is not outstanding at its ack; that it is missing shows in how
# the operation differs from others.  Two operations are of one sort if
#
# 1. the same kinds of writes (powercut.crash.kinds) were submitted between the ack before and
# theirs,    however many of each; more finely 2. also with as many flushes, up to three, and the
# same kinds outstanding at the ack; most finely 3. also with as many writes of each kind, up to
# three: one of two files alike may be forgotten.
#
# A workload that repeats one operation has few sorts; one whose operations make different calls has
# nearly as many as calls.  That operations of one sort are alike is a guess: it orders states, and
# no probability follows from it.

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


# Which states are drawn, in which order: by the one order, or all by sweeps.


SELECTING: Final = (*POLICIES, POLICY)
"""Every policy that may be asked for."""


def check_policies(names: Sequence[str]) -> None:
    """Raises UsageError for a policy that does not exist."""
    for name in names:
        if name not in SELECTING:
            raise UsageError(
                f"there is no policy {name!r}", hint="choose from " + ", ".join(SELECTING)
            )


@dataclass(frozen=True)
class Selection:
    """What is to be drawn.  `names`: see Representatives."""

    policies: tuple[str, ...]
    model: Model = Model.EXACT
    seed: int = 0
    per_policy: int = 64
    limit: int | None = None
    names: Names | None = None

    def of(self, space: StateSpace, instants: I64) -> Order:
        """An iterator over distinct states at `instants`.  Sweeps take these in random order,
        neighbours together.
        """
        bounds = self.model, self.seed, self.per_policy, self.limit
        return Order(
            space, in_blocks(instants, self.seed), self.policies, *bounds, names=self.names
        )
