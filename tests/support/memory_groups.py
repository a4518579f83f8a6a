# SPDX-License-Identifier: Apache-2.0
"""A control group whose memory is limited, of either version (cgroups(7))."""

from __future__ import annotations

import os
import time
from pathlib import Path

from patience import AMPLE_S

_MOUNTS = Path("/proc/self/mountinfo")
_LIMITS = {"cgroup2": "memory.max", "cgroup": "memory.limit_in_bytes"}


def _mounted() -> tuple[Path, str] | None:
    """Where groups that can limit memory are made, and the file that holds the limit."""
    for line in _MOUNTS.read_text().splitlines():
        where, _, of_kind = line.partition(" - ")
        kind, _, options = of_kind.split(" ", 2)
        top = Path(where.split()[4])
        if kind == "cgroup" and "memory" in options.split(","):
            return top, _LIMITS[kind]
        control = top / "cgroup.subtree_control"
        if kind == "cgroup2" and control.exists() and "memory" in control.read_text().split():
            return top, _LIMITS[kind]
    return None


def absent() -> str:
    """Why this process can make none; empty if it can."""
    mounted = _mounted()
    if mounted is None:
        return "no control groups that limit memory"
    return "" if os.access(mounted[0], os.W_OK) else f"{mounted[0]} may not be written to"


def make(name: str) -> Path:
    """A new group below the topmost; an OSError if there can be none."""
    mounted = _mounted()
    assert mounted is not None, absent()
    group = mounted[0] / name
    group.mkdir()
    return group


def join(group: Path, limit: int) -> None:
    """From now on this process has `limit` bytes of memory; an error if the kernel disagrees."""
    mounted = _mounted()
    assert mounted is not None, absent()
    (group / mounted[1]).write_text(str(limit))
    (group / "cgroup.procs").write_text(str(os.getpid()))
    joined = Path("/proc/self/cgroup").read_text()
    held = int((group / mounted[1]).read_text())
    if f"/{group.name}\n" not in joined or held != limit:
        raise AssertionError(f"{group} limits nothing: {held} bytes, {joined}")


def remove(group: Path) -> None:
    """Removes a group once its last process is gone; an error if one stays."""
    end = time.monotonic() + AMPLE_S
    while left := (group / "cgroup.procs").read_text().split():
        assert time.monotonic() < end, f"{group} still has {left}"
        time.sleep(0.02)
    group.rmdir()
