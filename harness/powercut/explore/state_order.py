# SPDX-License-Identifier: Apache-2.0
"""In which order the crash states of operations are looked at, so that a small budget sees most.

1. States at the cut that are named.
2. durable-only at acks, spread over the whole run: what was promised, at the instant at which it
   was promised, in the worst state that is legal.  Up to a quarter of the budget.
3. One of each group of like states, then more of each (powercut.crash.representatives).  Up to
   three quarters.
4. All policies, a few instants at a time, then all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.crash.explore import Exploration, InstantKind, events, sample
from powercut.crash.representatives import Representatives
from powercut.crash.states import CrashState, StateSpace
from powercut.explore.request import Budget

_FIRST_INSTANTS: Final = 256
_PER_POLICY: Final = 1024
_A_FEW: Final = 4
_AT_ONCE: Final = 8
_OF_A_GROUP: Final = 64
_FIRST_SHARE: Final = 0.25
_GROUPS_SHARE: Final = 0.75

I64 = npt.NDArray[np.int64]


class StateOrder:
    """The states of one space, as `seed` has them."""

    def __init__(
        self,
        space: StateSpace,
        at_cut: Sequence[CrashState],
        *,
        seed: int,
        between: tuple[int, int] | None = None,
    ) -> None:
        """`at_cut` come first.  Of instants only those count that are `between` two, the first
        excluded; all by default.
        """
        self._space = space
        self._at_cut = at_cut
        self._seed = seed
        self._between = between

    def walk(self, budget: Budget, look: Callable[[CrashState], None]) -> bool:
        """Has `look` see states until the budget is used up; whether it saw all of them."""
        start, seen = time.monotonic(), 0
        exhausted = False
        steps = (
            (self._first(budget), _FIRST_SHARE),
            (iter(self.grouped), _GROUPS_SHARE),
            (self._all(), 1.0),
        )
        for states, share in steps:
            for state in states:
                spent = time.monotonic() - start
                if budget.seconds is not None and spent > share * budget.seconds:
                    break
                if budget.states is not None and seen >= share * budget.states:
                    break
                look(state)
                seen += 1
            else:
                exhausted = share == 1.0
        return exhausted

    @cached_property
    def grouped(self) -> Representatives:
        """The states of step 3; its coverage says how many groups were seen."""
        return Representatives(
            self._space, self._all_events, (), seed=self._seed, per_policy=_OF_A_GROUP
        )

    def _first(self, budget: Budget) -> Iterator[CrashState]:
        yield from self._at_cut
        count = (
            _FIRST_INSTANTS if budget.states is None else max(1, int(budget.states * _FIRST_SHARE))
        )
        acks = sample(self.events([InstantKind.ACK]), count, self._seed)
        # In random order, so that a short budget has seen them all over the run.
        acks = np.random.default_rng(self._seed).permutation(acks)
        yield from Exploration(self._space, acks, ("durable-only",), seed=self._seed)

    def _all(self) -> Iterator[CrashState]:
        """All policies at a few instants, then at the next few, in random order: a budget that
        would not last for one policy at all instants then sees a part of each.

        Instants at which nothing is volatile have one state, which comes with the acks.
        """
        space, seed = self._space, self._seed + 1
        instants = self._all_events
        order = np.random.default_rng(seed).permutation(instants)
        choice = np.array([one for one in order.tolist() if len(space.volatile(one))], np.int64)
        for per_policy in (_A_FEW, _PER_POLICY):
            for begin in range(0, len(choice), _AT_ONCE):
                chosen = choice[begin : begin + _AT_ONCE]
                yield from Exploration(space, chosen, seed=seed, per_policy=per_policy)
        yield from Exploration(space, instants, seed=seed, per_policy=_PER_POLICY)

    @cached_property
    def _allevents(self) -> I64:
        return self.events(list(InstantKind))

    @cached_property
    def _all_events(self) -> I64:
        return self.events(list(InstantKind))

    def events(self, kinds: Sequence[InstantKind]) -> I64:
        """The instants just after events of these kinds."""
        found = events(self._space, list(kinds))
        if self._between is None:
            return found
        after, until = self._between
        return found[(found > after) & (found <= until)]
