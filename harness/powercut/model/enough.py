# SPDX-License-Identifier: Apache-2.0
"""How much has to have been seen before finding no loss means anything."""

from __future__ import annotations

from typing import Final

OPERATIONS_MIN: Final = 10
"""Acknowledged operations below which a run proves nothing."""

LONGER: Final = 5
"""How many times as long as it was given a run may take to come to so many, as on a busy host."""

STATES_MIN: Final = 32
"""Recovered states below which nothing is SAFE of a workload whose bytes are not recognised, unless
there are no more."""


def too_few_operations(acknowledged: int) -> str:
    """Why so many acknowledged operations are no evidence; empty if they are enough."""
    if acknowledged >= OPERATIONS_MIN:
        return ""
    few = f"{acknowledged} operations were acknowledged, and fewer than {OPERATIONS_MIN}"
    return f"{few} prove nothing"
