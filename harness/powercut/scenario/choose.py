# SPDX-License-Identifier: Apache-2.0
"""Which combinations of a matrix become cells, and what becomes of the others.

Without `matrix.strategy` every combination is a cell, and one that cannot be is a mistake in
the scenario.  With a strategy, combinations that cannot be are left out and counted; of the
rest `product` takes all, and `pairwise` so many that every pair of values occurs.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from powercut.scenario.expand import Draft
from powercut.scenario.pairwise import covering
from powercut.scenario.refusal import Reason


class Strategy(enum.Enum):
    """How combinations are chosen."""

    PRODUCT = "product"
    PAIRWISE = "pairwise"


@dataclass(frozen=True)
class LeftOut:
    """Combinations that no cell stands for."""

    settings: Mapping[str, Any]
    """What they have in common, by dotted key; empty if nothing."""

    reason: str
    combinations: int


def left_out_as_impossible(refused: Sequence[tuple[Draft, Reason]]) -> list[LeftOut]:
    """Combinations that cannot be, those of one reason together."""
    groups: dict[str, list[Draft]] = {}
    for draft, (dotted, reason) in refused:
        groups.setdefault(f"{dotted}: {reason}", []).append(draft)
    return [
        LeftOut(_common(drafts), f"impossible: {reason}", len(drafts))
        for reason, drafts in groups.items()
    ]


def choose_pairwise(drafts: Sequence[Draft]) -> tuple[list[Draft], list[LeftOut]]:
    """So many of `drafts` that every pair of values in any of them occurs."""
    chosen = covering([draft.row for draft in drafts])
    rest = len(drafts) - len(chosen)
    left_out = []
    if rest:
        reason = "every pair of values occurs in some cell, these combinations of more in none"
        left_out.append(LeftOut({}, f"pairwise: {reason}", rest))
    return [drafts[index] for index in chosen], left_out


def _common(drafts: Sequence[Draft]) -> dict[str, Any]:
    first, *rest = (draft.overrides for draft in drafts)
    return {
        key: value
        for key, value in first.items()
        if all(key in other and other[key] == value for other in rest)
    }
