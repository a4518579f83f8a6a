# SPDX-License-Identifier: Apache-2.0
"""How much slower than a quiet host this one is at the moment."""

from __future__ import annotations

import contextlib
import math
import os
from collections import defaultdict
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


# Which processor this host has, as its kernel says it (proc_cpuinfo(5)).


def processor_model(path: Path = Path("/proc/cpuinfo")) -> str:
    """The model of the first processor; empty if the kernel does not say it."""
    with contextlib.suppress(OSError):
        for line in path.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return ""


# How much processor time powercut and all that it has started have taken.
#
# times(2) counts children only once they have ended and were waited for; a kernel that recovers one
# state after the other has not.  So the processes below this one are added up from /proc
# (proc_pid_stat(5)), each with those of its children that have ended.

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
