# SPDX-License-Identifier: Apache-2.0
"""Measures what else a host has to do while powercut runs.

/proc/stat (proc_stat(5)) counts the ticks of all processors by what they did; those of powercut
and of whatever it started and waited for are times(2)'s.  The rest of the busy ones were
others'.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from powercut.store.host_load import HostLoad

_IDLE, _IOWAIT, _STEAL, _COUNTED = 3, 4, 7, 8
"""Columns of a line of /proc/stat; guest time, in the columns after these, is in user time, too."""


@dataclass(frozen=True)
class _Ticks:
    """Seconds of processor time since the host started, and since powercut did."""

    total: float
    busy: float
    stolen: float
    own: float


class LoadMeter:
    """Measures from when it is made."""

    def __init__(self, stat: Path = Path("/proc/stat")) -> None:
        self._stat = stat
        self._average = os.getloadavg()[0]
        self._begun = time.monotonic()
        self._ticks = _ticks(stat)

    def read(self) -> HostLoad | None:
        """The load until now; None where /proc does not tell."""
        then, now = self._ticks, _ticks(self._stat)
        if then is None or now is None or now.total <= then.total:
            return None
        total = now.total - then.total

        def share(ticks: float) -> float:
            return round(min(max(ticks / total, 0.0), 1.0), 4)

        return HostLoad(
            seconds=round(time.monotonic() - self._begun, 3),
            processors=os.cpu_count() or 1,
            average_before=round(self._average, 2),
            stolen=share(now.stolen - then.stolen),
            others=share(now.busy - then.busy - (now.own - then.own)),
        )


def _ticks(stat: Path) -> _Ticks | None:
    try:
        name, *columns = stat.read_text(encoding="ascii").split("\n", 1)[0].split()
        ticks = [int(column) for column in columns[:_COUNTED]]
    except (OSError, ValueError):
        return None
    if name != "cpu" or len(ticks) < _COUNTED:
        return None
    hertz = os.sysconf("SC_CLK_TCK")
    times = os.times()
    total = sum(ticks)
    return _Ticks(
        total=total / hertz,
        busy=(total - ticks[_IDLE] - ticks[_IOWAIT] - ticks[_STEAL]) / hertz,
        stolen=ticks[_STEAL] / hertz,
        own=times.user + times.system + times.children_user + times.children_system,
    )
