# SPDX-License-Identifier: Apache-2.0
"""Ranges and sets of numbers, in bulk."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]


def expand(start: I64, count: I64) -> tuple[I64, I64]:
    """For each range of `count` numbers from `start`: its index, repeated, and the numbers."""
    owner = np.repeat(np.arange(len(count)), count)
    before = np.cumsum(count) - count
    return owner, np.arange(len(owner)) - before[owner] + start[owner]


def sorted_unique(values: I64) -> I64:
    """As `np.unique`, which takes a hash table and is slow where values are almost sorted."""
    values = np.sort(values, kind="stable")
    new = np.ones(len(values), dtype=np.bool_)
    new[1:] = values[1:] != values[:-1]
    return values[new]
