# SPDX-License-Identifier: Apache-2.0
"""The order in which crash states are looked at: one for all recordings, so that a small budget
sees most.

States come from streams in turn:

- *sorts*: nothing but what is durable, just after the ack of one operation of each sort, rare ones
  first (powercut.crash.unlike_acks);
- *draws*: the same state after acks drawn at random.  A fault that leaves no trace in how
  operations look is met in proportion to its rarity and to nothing else, so the chance of that is
  known (powercut.model.odds);
- *groups* and *coins* (powercut.crash.representatives);
- of the policies that were asked for without `representatives`, one state each in turn, at instants
  drawn at random.

1. Where there are few acks, and a limit that has room for them, all of them come first, in order of
   time.
2. The streams have equal turns for the first `FEW` states.
3. Then acks have three of four turns, until a fault in one operation of `RARE` would be met with a
   probability of `ENOUGH`.
4. Equal turns again, until all streams have ended, and then a sweep as `Exploration` makes it.
"""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, cycle
from math import ceil
from typing import Final

import numpy as np

from powercut.crash.explore import I64, Coverage, InstantKind, events
from powercut.crash.permutation import permuted
from powercut.crash.policies import POLICIES
from powercut.crash.representatives import Representatives
from powercut.crash.shapes import POLICY
from powercut.crash.states import CrashState, Model
from powercut.crash.unlike_acks import one_of_each_sort
from powercut.model.odds import AcksLookedAt
from powercut.model.units import NEVER

AT_ACKS: Final = "durable-only"
"""The policy of the states just after acks."""

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
    OTHERS = enum.auto()


_EQUAL: Final = (
    _Stream.SORTS, _Stream.GROUPS, _Stream.OTHERS, _Stream.DRAWS, _Stream.COINS, _Stream.OTHERS,
)  # fmt: skip
_MOSTLY_ACKS: Final = (
    _Stream.SORTS, _Stream.DRAWS, _Stream.DRAWS, _Stream.GROUPS, _Stream.OTHERS,
    _Stream.SORTS, _Stream.DRAWS, _Stream.DRAWS, _Stream.COINS, _Stream.OTHERS,
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
        """The states, in the order of the module."""
        if self.model is Model.EXACT:
            yield from self._first()
            if not self._full:
                yield from self._in_turn()
        if not self._full:
            yield from super().__iter__()

    def coverage(self) -> Coverage:
        """So far."""
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
        """How many acks have to be drawn."""
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
        """All acks, if they are few."""
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

    # --- policies that were asked for -------------------------------------------------------

    def _others(self) -> Iterator[CrashState]:
        """One state of each policy in turn."""
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
