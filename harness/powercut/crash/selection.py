# SPDX-License-Identifier: Apache-2.0
"""Which states are drawn, in which order: by the one order, or all by sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from powercut.crash.explore import I64, in_blocks
from powercut.crash.kinds import Names
from powercut.crash.order import Order
from powercut.crash.policies import POLICIES
from powercut.crash.shapes import POLICY
from powercut.crash.states import Model, StateSpace
from powercut.model.errors import UsageError

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
