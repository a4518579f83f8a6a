# SPDX-License-Identifier: Apache-2.0
"""How fast crash states are recovered, beside the ways that need no powercut."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.figure import Figure
from bench.uml import RUN_ID, compare_paths, make_dirty, measure
from powercut.disk.base import BaseImageSpec, ensure_base_image
from powercut.model.errors import HostError
from powercut.paths import CACHE, WAL_BINARY
from powercut.recover.plan import RecoveryPlan
from powercut.recover.port import ImageWrite
from powercut.recover.uml.engine import UmlEngine, unavailable
from powercut.recover.uml.share import BarePath

_MIB: Final = 1 << 20
_TIMEOUT_S: Final = 600.0
_RECORDS: Final = 200
_TURNS: Final = 5
_ENGINE_STATES: Final = 60
_CLASSIC_STATES: Final = 8
_COPIED_MAX: Final = 16 * _MIB  # a larger file takes seconds to compare, whatever is mounted
_LOG: Final = (f"run_id={RUN_ID}", "layout=append", "record=4096")

SUBJECTS: Final = (
    ("ext4", 16 * _MIB, 3.0),
    ("xfs", 16 * _MIB, 2.0),
    ("ext4", 1024 * _MIB, 10.0),
    ("xfs", 1024 * _MIB, 10.0),
)
"""File system, size of the disk in bytes, and the goal against the classic way."""


def bench_explore() -> list[Figure]:
    """The uml engine against bare mount loops in its kernel, and against the classic way.

    One bare loop has its disk in RAM behind a snapshot, as the engine has; the other on a file
    of the host (ubd), which it writes back where it was changed: UML's usual disk.

    The classic way is what people do with a replayed log: apply the state to a plain file,
    copy the file, loop-mount the copy on the host's kernel, check, unmount.  It needs root;
    without it only the first comparison is made.  Raises HostError if UML cannot run.
    """
    if reasons := unavailable():
        raise HostError(f"the uml engine cannot run: {'; '.join(reasons)}")
    figures = []
    for filesystem, size, goal in SUBJECTS:
        base = ensure_base_image(BaseImageSpec(filesystem, size), CACHE)
        name = f"{filesystem}, {size // _MIB} MiB"
        bare = measure(base, filesystem, timeout_s=_TIMEOUT_S)
        figures.append(
            Figure(name, bare.varied_per_s, bare.bare_per_s, "bare mount loop", "states/s", 0.8)
        )
        if size <= _COPIED_MAX:
            (loop,) = compare_paths(base, filesystem, [BarePath.UBD], timeout_s=_TIMEOUT_S)
            round_ms = loop.restore_ms + loop.mount_ms + loop.unmount_ms
            against = "bare loop, disk a file"
            figures.append(
                Figure(name, bare.varied_per_s, 1000 / round_ms, against, "states/s", 0.8)
            )
        if os.geteuid() == 0:
            ours, classic = _against_classic(base, filesystem)
            figures.append(Figure(name, ours, classic, "copy and loop-mount", "states/s", goal))
    return figures


def _against_classic(base: Path, filesystem: str) -> tuple[float, float]:
    """States per second of the engine and of the classic way, in turn; medians."""
    plan = RecoveryPlan.of(filesystem, "", "/mnt", ("/bin/wal", "read", *_LOG, "path=/mnt/wal"))
    ours, classic = [], []
    # In memory: the classic way waits for the host's disk otherwise, which ours never does.
    memory = tempfile.TemporaryDirectory(dir="/dev/shm", prefix="powercut-bench-")
    with memory as folder, UmlEngine(base, plan) as engine:
        engine.start(timeout_s=_TIMEOUT_S)
        dirty = make_dirty(engine, _RECORDS, timeout_s=_TIMEOUT_S)
        states = [dirty[:at] + dirty[at + 1 :] for at in range(0, len(dirty), 2)]
        loop = _ClassicLoop(base, filesystem, Path(folder))
        for turn in range(_TURNS):
            first = turn * _CLASSIC_STATES
            some = [states[(first + i) % len(states)] for i in range(_CLASSIC_STATES)]
            many = [states[(first + i) % len(states)] for i in range(_ENGINE_STATES)]
            start = time.monotonic()
            for state in many:
                engine.recover(state, timeout_s=_TIMEOUT_S)
            ours.append(len(many) / (time.monotonic() - start))
            start = time.monotonic()
            for state in some:
                loop.recover(state)
            classic.append(len(some) / (time.monotonic() - start))
    return statistics.median(ours), statistics.median(classic)


class _ClassicLoop:
    """Apply, copy, loop-mount, check, unmount; as root on the host's kernel."""

    def __init__(self, base: Path, filesystem: str, folder: Path) -> None:
        self._image = folder / "replayed.img"
        self._copy = folder / "copy.img"
        self._mount_point = folder / "mnt"
        self._mount_point.mkdir()
        self._base = base
        self._options = "loop,nouuid" if filesystem == "xfs" else "loop"
        subprocess.run(["cp", "--sparse=always", base, self._image], check=True)
        self._image.chmod(0o600)

    def recover(self, state: Sequence[ImageWrite]) -> None:
        """Recovers one state and reads its log."""
        with self._image.open("r+b") as image:
            for write in state:
                image.seek(write.offset)
                image.write(bytes(write.length) if write.data is None else write.data.tobytes())
        shutil.copyfile(self._image, self._copy)
        mounted = subprocess.run(
            ["mount", "-o", self._options, self._copy, self._mount_point],
            capture_output=True,
            check=False,
        )
        if mounted.returncode:
            return  # a state that does not mount costs what it costs
        try:
            read = [str(WAL_BINARY), "read", *_LOG, f"path={self._mount_point}/wal"]
            subprocess.run([*read, "channel=fd:1"], capture_output=True, check=False)
        finally:
            subprocess.run(["umount", self._mount_point], check=True)
