# SPDX-License-Identifier: Apache-2.0
"""How much slower than a quiet host this one is at the moment."""

from __future__ import annotations

import math
import os
from pathlib import Path, PurePosixPath
from typing import Final

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


# How many processors' time a control group lets this process have, as `docker --cpus` limits it.
#
# cgroups(7); cpu.max of Documentation/admin-guide/cgroup-v2.rst, and for version 1 cpu.cfs_quota_us
# of Documentation/scheduler/sched-bwc.rst.  The load average knows nothing of either: a process
# that its quota has stopped is not counted.

_CONTROL_GROUPS: Final = Path("/sys/fs/cgroup")
_OWN: Final = Path("/proc/self/cgroup")


def processor_quota(own: Path = _OWN, mounted: Path = _CONTROL_GROUPS) -> float:
    """Processors' worth of time that the narrowest group around this process has; else infinity."""
    try:
        lines = own.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return math.inf
    quotas = [math.inf]
    for line in lines:
        _, controllers, path = line.split(":", 2)
        version_2 = not controllers
        if version_2 or "cpu" in controllers.split(","):
            top = mounted if version_2 else mounted / "cpu"
            # In a container the path may be the host's, and what is mounted the container's own.
            group = PurePosixPath(path)
            for one in (group, *group.parents):
                folder = top / one.relative_to("/")
                quotas.append(_version_2(folder) if version_2 else _version_1(folder))
    return min(quotas)


def _version_2(folder: Path) -> float:
    """cpu.max: "QUOTA PERIOD" in microseconds, QUOTA "max" if there is none."""
    return _ratio(*_words(folder / "cpu.max"))


def _version_1(folder: Path) -> float:
    """Microseconds in two files; the quota is -1 if there is none."""
    return _ratio(
        *_words(folder / "cpu.cfs_quota_us"),
        *_words(folder / "cpu.cfs_period_us"),
    )


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except (OSError, UnicodeDecodeError):
        return []


def _ratio(*words: str) -> float:
    """Quota by period; infinite for anything that is no limit."""
    if len(words) != 2 or not all(word.isdecimal() and int(word) for word in words):
        return math.inf
    return int(words[0]) / int(words[1])
