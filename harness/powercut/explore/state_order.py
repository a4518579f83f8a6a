# SPDX-License-Identifier: Apache-2.0
"""The states of one space until a budget is used up: those at the cut that are named, then those of
the one order (powercut.crash.order).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import chain

from powercut.crash.explore import Coverage, InstantKind, events
from powercut.crash.order import ALL_POLICIES
from powercut.crash.selection import Selection
from powercut.crash.states import CrashState, StateSpace
from powercut.explore.request import PER_POLICY, Budget


class StateOrder:
    """The states of one space, as `seed` has them."""

    def __init__(
        self,
        space: StateSpace,
        at_cut: Sequence[CrashState],
        *,
        seed: int,
        between: tuple[int, int] | None = None,
        policies: Sequence[str] = (),
        at: Sequence[InstantKind] = (),
    ) -> None:
        """`at_cut` come first.  Of instants only those count that are `between` two, the first
        excluded; all by default.  With `policies` or `at` states are drawn by these alone, or at
        instants of these kinds.
        """
        instants = events(space, list(at or InstantKind))
        if between is not None:
            after, until = between
            instants = instants[(instants > after) & (instants <= until)]
        self._at_cut = at_cut
        selection = Selection(tuple(policies) or ALL_POLICIES, seed=seed, per_policy=PER_POLICY)
        self._drawn = selection.of(space, instants)

    def walk(self, budget: Budget, look: Callable[[CrashState], None]) -> bool:
        """Has `look` see states until the budget is used up; whether it saw all of them."""
        start = time.monotonic()
        for seen, state in enumerate(chain(self._at_cut, self._drawn)):
            if budget.seconds is not None and time.monotonic() - start > budget.seconds:
                return False
            if budget.states is not None and seen >= budget.states:
                return False
            look(state)
        return True

    def coverage(self) -> Coverage:
        """What was drawn so far, out of how much."""
        return self._drawn.coverage()
