# SPDX-License-Identifier: Apache-2.0
"""Combinations with several disks that cannot work, or that cannot mean what they say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from powercut.scenario.choices import FilesystemType
from powercut.scenario.settings import Parameters, ProgramSettings
from powercut.scenario.settings_several import STRIPE, Holds

Reason = tuple[str, str]

_KEY: Final = "disk.also"


def refusals_of_several(p: Parameters) -> Iterator[Reason]:
    """Why these disks cannot be used so: (dotted key, reason) each."""
    if not p.disk.also:
        return
    yield from _of_layout(p)
    yield from _of_use(p)
    if p.disk.ordered:
        yield "disk.ordered", "several disks have no order between them: leave it out"
    if p.explore.depth:
        yield "explore.depth", "second cuts are of one disk: a recovery of several is not recorded"


def _of_layout(p: Parameters) -> Iterator[Reason]:
    names = [disk.name for disk in p.disk.also]
    kinds = [disk.holds for disk in p.disk.also]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield _KEY, f"two disks are called {name}"
    if p.filesystem.type not in (FilesystemType.XFS, FilesystemType.EXT4):
        yield "filesystem.type", "several disks take xfs or ext4"
    if Holds.XFS_LOG in kinds and p.filesystem.type is not FilesystemType.XFS:
        yield _KEY, "xfs-log is the log of an XFS: filesystem.type: xfs"
    if kinds.count(Holds.XFS_LOG) > 1:
        yield _KEY, "an XFS has one log"
    if Holds.STRIPE not in kinds:
        return
    if set(kinds) != {Holds.STRIPE}:
        yield _KEY, "stripes lie on all disks, or on none"
    if any(disk.size != p.disk.size for disk in p.disk.also) or p.disk.size % STRIPE:
        yield _KEY, "stripes take disks of one size, a multiple of 64 KiB"


def _of_use(p: Parameters) -> Iterator[Reason]:
    program = p.workload
    if not isinstance(program, ProgramSettings):
        yield "workload.kind", "several disks are for a program: workload.kind: program"
    elif not program.runs_in_uml:
        yield (
            "workload.where",
            "several disks take User-Mode Linux: `root: host`, or `where: no-vm`",
        )
