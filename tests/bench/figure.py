# SPDX-License-Identifier: Apache-2.0
"""What a benchmark says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One comparison.  `ratio` is `value` over `reference`, both in `unit`.

    `goal` is what the ratio should reach, None if there is no such goal.
    """

    name: str
    value: float
    reference: float
    reference_name: str
    unit: str
    goal: float | None = None

    @property
    def ratio(self) -> float:
        """`value` over `reference`."""
        return self.value / self.reference
