# SPDX-License-Identifier: Apache-2.0
"""How much slower than a quiet host this one is at the moment."""

from __future__ import annotations

import os
from typing import Final

from powercut.machine.processor_quota import processor_quota

_PATIENCE_MOST: Final = 5.0


def patience() -> float:
    """How much longer than on a quiet host things may take here and now: 1 to 5.

    It is the load of the last minute for each processor, or, if that is more, the inverse of the
    share of one processor that a container has.  A deadline that a quiet host reaches only if
    something hangs would be missed by one on which eight others compute, and its verdict would be
    INCONCLUSIVE for no reason of the disk's.
    """
    try:
        load = os.getloadavg()[0]
    except OSError:
        load = 0.0
    slower = max(load / len(os.sched_getaffinity(0)), 1 / processor_quota())
    return min(max(slower, 1.0), _PATIENCE_MOST)
