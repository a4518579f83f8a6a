# SPDX-License-Identifier: Apache-2.0
"""Instants in an order by chance.

Work has periods: a checkpoint each hundredth commit, a new segment each 64th.  An order that is
even over a run is in step with some of them, and meets a fault of that period always or never.
Chance is in step with nothing.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]


def permuted(instants: I64, seed: int, purpose: str) -> I64:
    """`instants` in an order that `seed` draws; orders for other purposes are independent of it."""
    digest = hashlib.blake2b(f"{seed}/{purpose}".encode(), digest_size=16).digest()
    draw = np.random.default_rng(int.from_bytes(digest))
    return np.asarray(draw.permutation(instants), dtype=np.int64)
