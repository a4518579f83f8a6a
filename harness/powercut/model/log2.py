# SPDX-License-Identifier: Apache-2.0
"""Numbers that are too large to be written down, by their binary logarithms."""

from __future__ import annotations

import math
from collections.abc import Sequence


def log2_sum(logs: Sequence[float]) -> float:
    """The binary logarithm of a sum, of the binary logarithms of its parts; 0 for none."""
    if not logs:
        return 0.0
    most = max(logs)
    return most + math.log2(sum(2.0 ** (log - most) for log in logs))
