# SPDX-License-Identifier: Apache-2.0
"""Which states are drawn, in which order: by sweeps, by a survey, or by groups of like ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from powercut.crash.explore import I64, Exploration, in_blocks
from powercut.crash.kinds import Names
from powercut.crash.policies import POLICIES
from powercut.crash.representatives import Representatives
from powercut.crash.shapes import POLICY
from powercut.crash.states import Model, StateSpace
from powercut.crash.survey import Survey
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
    """What is to be drawn.  `survey` and `names`: see Survey and Representatives.

    Where `representatives` is among the policies, it comes first; no survey is made.
    """

    policies: tuple[str, ...]
    model: Model = Model.EXACT
    seed: int = 0
    per_policy: int = 64
    limit: int | None = None
    survey: bool = False
    names: Names | None = None

    def of(self, space: StateSpace, instants: I64, *, blocks: bool = True) -> Exploration:
        """An iterator over distinct states at `instants`; with `blocks` a sweep takes these in
        random order, neighbours together.
        """
        bounds = self.model, self.seed, self.per_policy, self.limit
        if POLICY in self.policies:
            return Representatives(space, instants, self.policies, *bounds, names=self.names)
        if self.survey:
            return Survey(space, instants, self.policies, *bounds)
        if blocks:
            instants = in_blocks(instants, self.seed)
        return Exploration(space, instants, self.policies, *bounds)
