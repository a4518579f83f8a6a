# SPDX-License-Identifier: Apache-2.0
"""Which combinations of a matrix become cells, and what becomes of the others.

Without `matrix.strategy` every combination is a cell, and one that cannot be is a mistake in
the scenario.  With a strategy, combinations that cannot be are left out and counted; of the
rest `product` takes all, and `pairwise` so many that every pair of values occurs.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from allpairspy import AllPairs

from powercut.scenario.expand import Draft
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


# Covering arrays: few combinations in which every possible pair of values occurs.
#
# Most faults of a configuration come from one setting or from two together (Kuhn, Wallace and
# Gallo, "Software fault interactions and implications for software testing", IEEE Transactions
# on Software Engineering 30, 2004); so pairs give most of what the product would, for a fraction
# of it.  What no pair shows, only the product does; a certificate says which was done.

Row = tuple[int, ...]
"""A combination: for each axis the index of its value."""

Pair = tuple[int, int, int, int]
"""An axis and a value of it, another axis and a value of that."""


def pairs_of(row: Row) -> set[Pair]:
    """Every pair of values that occurs in a combination."""
    return {
        (left, row[left], right, row[right])
        for left, right in itertools.combinations(range(len(row)), 2)
    }


def covering(rows: Sequence[Row]) -> list[int]:
    """Which of `rows`, as indices in rising order, cover every pair that occurs in any of them.

    `rows` are all combinations that are possible, each once.  The same rows give the same
    choice.
    """
    if not rows or len(rows[0]) < 2:
        return list(range(len(rows)))
    place = {row: index for index, row in enumerate(rows)}
    chosen = {place[row]: None for row in _library(rows)}
    missing = set[Pair]().union(*map(pairs_of, rows))
    for index in chosen:
        missing -= pairs_of(rows[index])
    # The library stops at the first combination that brings nothing new, which with
    # impossible combinations is not always the last that is needed.
    while missing:
        best = max(
            _with_a_pair(rows, missing),
            key=lambda index: (len(pairs_of(rows[index]) & missing), -index),
        )
        chosen[best] = None
        missing -= pairs_of(rows[best])
    return sorted(chosen)


def _library(rows: Sequence[Row]) -> Iterable[Row]:
    """What allpairspy makes of it; it asks of each beginning of a row whether it is possible."""
    begun = {row[:length] for row in rows for length in range(1, len(rows[0]) + 1)}
    axes = [sorted({row[axis] for row in rows}) for axis in range(len(rows[0]))]
    for made in AllPairs(axes, filter_func=lambda values: tuple(values) in begun):
        yield tuple(made)


def _with_a_pair(rows: Sequence[Row], missing: set[Pair]) -> list[int]:
    """The rows in which some missing pair occurs: the rarest to look at are enough."""
    left, left_value, right, right_value = min(missing)
    return [
        index
        for index, row in enumerate(rows)
        if row[left] == left_value and row[right] == right_value
    ]
