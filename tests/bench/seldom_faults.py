# SPDX-License-Identifier: Apache-2.0
"""How often a fault in one operation of so many is found by default settings.

workloads/programs/seldom keeps 500 numbers durable, and breaks its promise in one operation of
`one_in`, in one of several ways.  Each program is recorded as a user would: by `powercut record` on
a disk, and by `powercut capture` in a folder; only the seed is given.  An honest twin that is LOSSY
is an error.

All of it takes hours on a small host: `powercut bench` runs it by name only, and slices of it add
up.  Each trial becomes a line of build/seldom-faults/trials.jsonl, and a trial that has its line is
not run again; remove the file to begin anew.  `seldom-faults:disk,stale,100,seed-2` runs what has
all of these properties.  What surprises, a fault that is not found or an honest program that is not
SAFE, keeps its results beside that file.
"""

from __future__ import annotations

import random
import shlex
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from bench.figure import Figure
from bench.kept import Kept
from powercut.model.errors import HostError, UsageError
from powercut.paths import BUILD, PROGRAMS, launcher

SEEDS: Final = (1, 2, 3)
RARITIES: Final = (1, 8, 10, 16, 32, 50, 64, 100, 200)
DISK: Final = "disk"
FOLDER: Final = "folder"
MEDIA: Final = (DISK, FOLDER)
KEPT: Final = Kept(BUILD / "seldom-faults")
_PROGRAM: Final = PROGRAMS / "seldom"
FOUND: Final = 1
"""Exit status of a LOSSY verdict."""

SAFE: Final = 0
NO_END: Final = -1
PATIENCE_S: Final = 900.0
_TWIN_AFTER: Final = 3
"""So many programs with a fault between two honest ones, as long as there are some."""


@dataclass(frozen=True)
class Planted:
    """A program with a fault, or without (`one_in` is 0)."""

    fault: str
    one_in: int

    def command(self, seed: int) -> tuple[str, ...]:
        """The program; the seed says which operations are faulty."""
        draw = random.Random(f"{self.fault}/{self.one_in}/{seed}")
        phase = draw.randrange(self.one_in) if self.one_in else 0
        words = f"fault={self.fault}", f"one_in={self.one_in}", f"phase={phase}"
        return str(_PROGRAM), *words


PLANTED: Final = (
    *(Planted(fault, one_in) for fault in ("unsynced", "stale") for one_in in RARITIES),
    *(Planted(fault, one_in) for fault in ("early", "other-file") for one_in in (16, 64, 200)),
    *(Planted(fault, one_in) for fault in ("name", "contents") for one_in in (10, 50, 100)),
)
"""Thirty programs; `stale` alone leaves no trace in how its operations look."""

TWINS: Final = tuple(Planted(fault, 0) for fault in dict.fromkeys(one.fault for one in PLANTED))


@dataclass(frozen=True)
class Cell:
    """One program, on one medium, with one seed."""

    planted: Planted
    medium: str
    seed: int

    @property
    def words(self) -> frozenset[str]:
        """What it can be chosen by."""
        rarity = str(self.planted.one_in or "honest")
        return frozenset({self.planted.fault, rarity, self.medium, f"seed-{self.seed}"})

    def __str__(self) -> str:
        one = self.planted
        return f"{one.fault}-{one.one_in or 'honest'}-{self.medium}-seed-{self.seed}"


@dataclass(frozen=True)
class Trial:
    """What became of a cell: an exit status, and the time that it took."""

    cell: Cell
    status: int
    seconds: float

    @property
    def found(self) -> bool:
        """Whether the verdict is LOSSY."""
        return self.status == FOUND

    @property
    def expected(self) -> bool:
        """Whether a fault was found, or an honest program is SAFE."""
        return self.status == (FOUND if self.cell.planted.one_in else SAFE)

    def __str__(self) -> str:
        said = {FOUND: "LOSSY", SAFE: "SAFE", NO_END: f"no verdict in {PATIENCE_S:.0f} s"}
        verdict = said.get(self.status, f"status {self.status}")
        return f"{self.cell}: {verdict}, {self.seconds:.1f} s"

    def line(self) -> dict[str, Any]:
        """What is kept of it."""
        cell = self.cell
        return (
            asdict(cell.planted)
            | {"medium": cell.medium, "seed": cell.seed, "status": self.status}
            | {"seconds": round(self.seconds, 1)}
        )


def trial_of(told: Mapping[str, Any]) -> Trial:
    """What `line` has written."""
    cell = Cell(Planted(told["fault"], told["one_in"]), told["medium"], told["seed"])
    return Trial(cell, told["status"], told["seconds"])


def cells() -> Iterator[Cell]:
    """All of them, the rarest faults first: each 30 in a row are 30 programs, media and seeds in
    turn.  Honest ones are spread over the first of them.
    """
    programs = sorted(PLANTED, key=lambda one: -one.one_in)
    honest = iter([Cell(one, m, s) for s in SEEDS for one in TWINS for m in MEDIA])
    for turn in range(len(MEDIA) * len(SEEDS)):
        for place, planted in enumerate(programs):
            medium = MEDIA[(place + turn) % len(MEDIA)]
            yield Cell(planted, medium, SEEDS[(place + turn) % len(SEEDS)])
            if place % _TWIN_AFTER == 0:
                yield from (one for one in [next(honest, None)] if one is not None)


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
        status = status_of(cell.planted.command(cell.seed), cell.medium, cell.seed, folder)
        trial = Trial(cell, status, time.monotonic() - begun)
        if not trial.expected:
            shutil.copytree(folder, kept / str(cell), symlinks=True, dirs_exist_ok=True)
    return trial


def status_of(program: Sequence[str], medium: str, seed: int, folder: Path) -> int:
    """Exit status of its recording as a user would make it; results are in `folder`."""
    settings = ("--results", str(folder / "results"), "--seed", str(seed))
    if medium == DISK:
        command = (launcher(), "record", *settings, "--", *program)
    else:
        store = folder / "store"
        subprocess.run((*program, "setup", str(store)), check=True, env={"POWERCUT_FD": "1"})
        check = shlex.join((*program, "check", str(store)))
        run = (*program, "run", str(store))
        command = (launcher(), "capture", str(store), *settings, "--check", check, "--", *run)
    with (folder / "said").open("wb") as said:
        try:
            done = subprocess.run(
                command, timeout=PATIENCE_S, check=False, cwd=folder, stdout=said, stderr=said
            )
        except subprocess.TimeoutExpired:
            return NO_END
    return done.returncode


def table(trials: Sequence[Trial]) -> list[str]:
    """Found of all, and the median time, for each rarity on each medium."""
    rows = [
        "| one in | " + " | ".join(f"{medium}: found | median time" for medium in MEDIA) + " |",
        "| --: |" + " --: |" * (2 * len(MEDIA)),
    ]
    for one_in in (*RARITIES, 0):
        columns = [str(one_in) if one_in else "honest: LOSSY"]
        for medium in MEDIA:
            of = [t for t in trials if (t.cell.planted.one_in, t.cell.medium) == (one_in, medium)]
            columns.append(f"{sum(t.found for t in of)} of {len(of)}" if of else "")
            columns.append(f"{statistics.median(t.seconds for t in of):.0f} s" if of else "")
        rows.append("| " + " | ".join(columns) + " |")
    return rows


def bench_seldom_faults(properties: str = "") -> list[Figure]:
    """Found of all on each medium, of those that have all of the properties.

    Raises HostError for an honest program that is LOSSY, UsageError for properties that none has.
    """
    console = Console(soft_wrap=True)
    wanted = frozenset(properties.split(",")) - {""}
    chosen = [cell for cell in cells() if wanted <= cell.words]
    if not chosen:
        raise UsageError(f"no trial of seldom-faults is {properties}")
    trials = []
    for trial in run_cells(chosen, KEPT):
        console.print(str(trial))
        trials.append(trial)
    console.print("\n".join(table(trials)))
    if wrong := [str(t) for t in trials if t.found and not t.cell.planted.one_in]:
        raise HostError(f"an honest program is LOSSY: {'; '.join(wrong)}")
    figures = []
    for medium in MEDIA:
        seen = [t for t in trials if t.cell.medium == medium and t.cell.planted.one_in]
        if seen:
            found = sum(one.found for one in seen)
            name = f"faults in one operation of 1 to 200, {medium}, found"
            figures.append(Figure(name, found, len(seen), "all", "trials"))
    return figures
