# SPDX-License-Identifier: Apache-2.0
"""Whether a program whose promises rest on luck is found by default settings.

workloads/programs/lucky keeps 200 numbers durable, in ten ways that hold as long as nobody else
commits, and in ten that hold as long as no sync is slow; workloads/programs/ranges in fourteen that
hold if another page of the file is written with the one that is synced.  Each has an honest twin,
and each is recorded as a user would, with only the seed given (bench.seldom_faults).  An honest
twin that is LOSSY is an error.

All of it takes hours on a small host: `powercut bench` runs it by name only, and slices of it add
up in build/lucky-faults/trials.jsonl.  `lucky-faults:disk,unlink,fault,seed-2` runs what has all of
these properties; what surprises keeps its results beside that file.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from bench.figure import Figure
from bench.kept import Kept
from bench.seldom_faults import FOUND, MEDIA, NO_END, PATIENCE_S, SAFE, SEEDS, status_of
from powercut.model.errors import HostError, UsageError
from powercut.paths import BUILD, PROGRAMS

ALONE: Final = (
    "unlink", "shell", "rename", "link", "symlink", "truncate", "rewrite", "marker", "folder",
    "clear",
)  # fmt: skip
IMPATIENT: Final = (
    "sleep", "join", "event", "future", "task", "queue", "flag", "poll", "child", "job",
)  # fmt: skip
PARTIAL: Final = (
    "msync", "msync-second", "msync-half", "odsync", "osync", "rwf-dsync", "append-odsync",
    "file-range", "aio", "uring", "direct-aio", "sendfile", "aio-sync", "uring-sync",
)  # fmt: skip
_KINDS: Final = {"alone": ALONE, "impatient": IMPATIENT, "partial": PARTIAL}
KEPT: Final = Kept(BUILD / "lucky-faults")


def command(way: str, *, honest: bool) -> tuple[str, ...]:
    """The program."""
    program = PROGRAMS / ("ranges" if way in PARTIAL else "lucky")
    return str(program), f"way={way}", f"honest={int(honest)}"


@dataclass(frozen=True)
class Cell:
    """One way or its twin, on one medium, with one seed."""

    way: str
    honest: bool
    medium: str
    seed: int

    @property
    def words(self) -> frozenset[str]:
        """What it can be chosen by."""
        kind = next(name for name, ways in _KINDS.items() if self.way in ways)
        which = "honest" if self.honest else "fault"
        return frozenset({self.way, kind, which, self.medium, f"seed-{self.seed}"})

    def __str__(self) -> str:
        which = "honest" if self.honest else "fault"
        return f"{self.way}-{which}-{self.medium}-seed-{self.seed}"


@dataclass(frozen=True)
class Trial:
    """What became of a cell: an exit status, and the time that it took."""

    cell: Cell
    status: int
    seconds: float

    @property
    def expected(self) -> bool:
        """Whether a fault was found, or an honest program is SAFE."""
        return self.status == (SAFE if self.cell.honest else FOUND)

    def __str__(self) -> str:
        said = {FOUND: "LOSSY", SAFE: "SAFE", NO_END: f"no verdict in {PATIENCE_S:.0f} s"}
        verdict = said.get(self.status, f"status {self.status}")
        return f"{self.cell}: {verdict}, {self.seconds:.1f} s"

    def line(self) -> dict[str, Any]:
        """What is kept of it."""
        return asdict(self.cell) | {"status": self.status, "seconds": round(self.seconds, 1)}


def trial_of(told: Mapping[str, Any]) -> Trial:
    """What `line` has written."""
    cell = Cell(told["way"], told["honest"], told["medium"], told["seed"])
    return Trial(cell, told["status"], told["seconds"])


def cells() -> Iterator[Cell]:
    """All of them, those with a fault first."""
    for seed in SEEDS:
        for honest in (False, True):
            for way in (*ALONE, *IMPATIENT, *PARTIAL):
                yield from (Cell(way, honest, medium, seed) for medium in MEDIA)


def run_cells(chosen: Sequence[Cell], kept: Kept) -> Iterator[Trial]:
    """The trial of each, those of earlier runs from their lines."""
    done = {trial.cell: trial for trial in map(trial_of, kept.lines())}
    for cell in chosen:
        if cell not in done:
            done[cell] = _run(cell, kept.folder)
            kept.add(done[cell].line())
        yield done[cell]


def _run(cell: Cell, kept: Path) -> Trial:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="powercut-bench-") as name:
        folder = Path(name)
        status = status_of(command(cell.way, honest=cell.honest), cell.medium, cell.seed, folder)
        trial = Trial(cell, status, time.monotonic() - begun)
        if not trial.expected:
            shutil.copytree(folder, kept / str(cell), symlinks=True, dirs_exist_ok=True)
    return trial


def bench_lucky_faults(properties: str = "") -> list[Figure]:
    """Found of all on each medium, of those that have all of the properties.

    Raises HostError for an honest program that is LOSSY, UsageError for properties that none has.
    """
    console = Console(soft_wrap=True)
    wanted = frozenset(properties.split(",")) - {""}
    chosen = [cell for cell in cells() if wanted <= cell.words]
    if not chosen:
        raise UsageError(f"no trial of lucky-faults is {properties}")
    trials = []
    for trial in run_cells(chosen, KEPT):
        console.print(str(trial))
        trials.append(trial)
    if wrong := [str(t) for t in trials if t.status == FOUND and t.cell.honest]:
        raise HostError(f"an honest program is LOSSY: {'; '.join(wrong)}")
    figures = []
    for medium in MEDIA:
        seen = [t for t in trials if t.cell.medium == medium and not t.cell.honest]
        if seen:
            name = f"promises that rest on luck, {medium}, found"
            found = sum(t.status == FOUND for t in seen)
            figures.append(Figure(name, found, len(seen), "all", "trials"))
    return figures
