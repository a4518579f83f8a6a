# SPDX-License-Identifier: Apache-2.0
"""How much processor time powercut and all that it has started have taken.

times(2) counts children only once they have ended and were waited for; a kernel that recovers one
state after the other has not.  So the processes below this one are added up from /proc
(proc_pid_stat(5)), each with those of its children that have ended.
"""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import Final

_PARENT, _TIMES = 1, slice(11, 15)
"""Fields behind the name: the parent; own user and system time, and the same of ended children."""

_PROC: Final = Path("/proc")


def processor_seconds(proc: Path = _PROC, pid: int | None = None) -> float:
    """Seconds of process `pid`, by default this one, and of its descendants; 0 without /proc.

    Not counted are processes that have lost their parent before they ended.
    """
    ticks: dict[int, int] = {}
    children: defaultdict[int, list[int]] = defaultdict(list)
    for process in proc.glob("[0-9]*"):  # without a look at what may have just ended
        try:
            fields = (process / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:  # it has just ended
            continue
        one = int(process.name)
        ticks[one] = sum(map(int, fields[_TIMES]))
        children[int(fields[_PARENT])].append(one)
    total, following = 0, [os.getpid() if pid is None else pid]
    while following:
        one = following.pop()
        total += ticks.get(one, 0)
        following += children[one]
    return total / os.sysconf("SC_CLK_TCK")
