# SPDX-License-Identifier: Apache-2.0
"""How fast the uml engine is, beside a bare loop in the same kernel in the same run.

The bare loop only gives the disk back its dirty state, mounts and unmounts it.  The
engine does that and more: it sends what differs, reads the log, checks every record
and answers.  Engine and loop take turns, so that a busy host slows both; figures are medians
over the turns.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from powercut.model.errors import HostError
from powercut.recover.plan import RecoveryPlan
from powercut.recover.port import ImageWrite
from powercut.recover.uml.engine import UmlEngine
from powercut.recover.uml.share import BarePath, Step

RUN_ID: Final = "00112233445566778899aabbccddeeff"
_RECORD: Final = 4096
_SEED: Final = 1
_WARM_UP: Final = 20
_LOG: Final = (f"run_id={RUN_ID}", "layout=append", "path=/mnt/wal", f"record={_RECORD}")


@dataclass(frozen=True)
class ExploreFigures:
    """One file system on one size of disk.

    Rates are states per second.  `same_per_s` recovers one state again and again, as
    the bare loop does; `varied_per_s` recovers states that lack one write each.
    `step_ms` is the mean time of each step of a recovery in the guest.
    """

    filesystem: str
    disk_bytes: int
    dirty_bytes: int
    boot_s: float
    same_per_s: float
    varied_per_s: float
    bare_per_s: float
    ratio: float
    ratio_varied: float
    step_ms: dict[str, float]
    bare_step_ms: dict[str, float]


@dataclass(frozen=True)
class PathFigures:
    """A bare loop over one way to the disk; milliseconds per round, medians."""

    filesystem: str
    path: str
    restore_ms: float
    mount_ms: float
    unmount_ms: float


def measure(
    base: Path, filesystem: str, *, records: int = 200, states: int = 100, turns: int = 7,
    timeout_s: float = 600.0,
) -> ExploreFigures:  # fmt: skip
    """Cuts a synced log of `records` on `base`, then recovers it `turns` times `states` times.

    Raises HostError if the engine cannot run here or gives a wrong answer.
    """
    deadline = time.monotonic() + timeout_s
    with UmlEngine(base, _plan(filesystem)) as engine:
        began = time.monotonic()
        engine.start(timeout_s=timeout_s)
        boot_s = time.monotonic() - began
        dirty = make_dirty(engine, records, timeout_s=timeout_s)
        same: Sequence[Sequence[ImageWrite]] = [dirty] * states
        rng = random.Random(_SEED)
        varied = []
        for _ in range(states):
            left_out = rng.randrange(len(dirty))
            varied.append(dirty[:left_out] + dirty[left_out + 1 :])
        _rate(engine, same[:_WARM_UP], records, deadline)
        engine.bare(BarePath.VIEW, _WARM_UP, timeout_s=deadline - time.monotonic())
        same_rates, varied_rates, bare_rates, steps, bare_steps = [], [], [], [], []
        for _ in range(turns):
            varied_rates.append(_rate(engine, varied, None, deadline)[0])
            rate, step_ns = _rate(engine, same, records, deadline)
            same_rates.append(rate)
            steps.append(step_ns)
            began = time.monotonic()
            answer = engine.bare(BarePath.VIEW, states, timeout_s=deadline - time.monotonic())
            bare_rates.append(states / (time.monotonic() - began))
            bare_steps.append(tuple(ns / states for ns in answer.step_ns))
    pairs = zip(same_rates, varied_rates, bare_rates, strict=True)
    ratios = [(same_rate / bare, varied_rate / bare) for same_rate, varied_rate, bare in pairs]
    return ExploreFigures(
        filesystem=filesystem,
        disk_bytes=base.stat().st_size,
        dirty_bytes=sum(write.length for write in dirty),
        boot_s=boot_s,
        same_per_s=statistics.median(same_rates),
        varied_per_s=statistics.median(varied_rates),
        bare_per_s=statistics.median(bare_rates),
        ratio=statistics.median(ratio for ratio, _ in ratios),
        ratio_varied=statistics.median(ratio for _, ratio in ratios),
        step_ms=_by_step(steps),
        bare_step_ms=_by_step(bare_steps),
    )


def compare_paths(
    base: Path, filesystem: str, paths: Sequence[BarePath] = tuple(BarePath), *,
    records: int = 200, rounds: int = 20, turns: int = 5, disk_flags: str = "",
    timeout_s: float = 600.0,
) -> list[PathFigures]:  # fmt: skip
    """The same dirty disk, mounted and unmounted over each of `paths`, taking turns.

    `disk_flags` are those of UML's `ubd0` option.
    """
    deadline = time.monotonic() + timeout_s
    disk = os.memfd_create("powercut-ubd")
    try:
        os.ftruncate(disk, base.stat().st_size)
        with UmlEngine(base, _plan(filesystem), disk_fd=disk, disk_flags=disk_flags) as engine:
            engine.start(timeout_s=timeout_s)
            dirty = make_dirty(engine, records, timeout_s=timeout_s)
            _rate(engine, [dirty], records, deadline)  # the origin now holds the dirty state
            taken: dict[BarePath, list[tuple[float, ...]]] = {path: [] for path in paths}
            for _ in range(turns):
                for path in paths:
                    answer = engine.bare(path, rounds, timeout_s=deadline - time.monotonic())
                    taken[path].append(tuple(ns / rounds for ns in answer.step_ns))
    finally:
        os.close(disk)
    figures = []
    for path, steps in taken.items():
        by_step = _by_step(steps)
        figures.append(
            PathFigures(
                filesystem,
                path.name.lower().replace("_", "-"),
                by_step["view"],
                by_step["mount"],
                by_step["umount"],
            )
        )
    return figures


def make_dirty(engine: UmlEngine, records: int, *, timeout_s: float) -> tuple[ImageWrite, ...]:
    """The crash state of a cut right after `records` synced records, on a mounted disk."""
    engine.mount(timeout_s=timeout_s)
    argv = ("/bin/wal", "write", *_LOG, "sync=fdatasync", f"records={records}", "channel=fd:3")
    engine.execute(argv, timeout_s=timeout_s)
    dirty = engine.capture(timeout_s=timeout_s)
    engine.unmount(timeout_s=timeout_s)
    return dirty


def _plan(filesystem: str) -> RecoveryPlan:
    return RecoveryPlan.of(filesystem, "", "/mnt", ("/bin/wal", "read", *_LOG))


def _rate(
    engine: UmlEngine, states: Sequence[Sequence[ImageWrite]], records: int | None, deadline: float
) -> tuple[float, tuple[float, ...]]:
    """States per second and the mean time of each step; `records` must come back if given."""
    total = [0.0] * len(Step)
    began = time.monotonic()
    for state in states:
        seen = engine.recover(state, timeout_s=deadline - time.monotonic())
        if records is not None and [extent.count for extent in seen.extents] != [records]:
            raise HostError(f"the uml engine lost records of a synced log: {seen}")
        if engine.last is not None:
            total = [sum_ns + ns for sum_ns, ns in zip(total, engine.last.step_ns, strict=True)]
    rate = len(states) / (time.monotonic() - began)
    return rate, tuple(ns / len(states) for ns in total)


def _by_step(steps: Sequence[Sequence[float]]) -> dict[str, float]:
    """Milliseconds by the name of the step: the median over the turns."""
    return {
        step.name.lower(): statistics.median(turn[step] for turn in steps) / 1e6
        for step in Step
        if step is not Step.NONE
    }
