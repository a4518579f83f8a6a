# SPDX-License-Identifier: Apache-2.0
"""How often a fault in one operation of so many is found by default settings.

workloads/programs/seldom keeps 500 numbers durable, and breaks its promise in one operation of
`one_in`, in one of several ways.  Each program is recorded as a user would: by `powercut record` on
a disk, and by `powercut capture` in a folder; only the seed is given.  An honest twin that is LOSSY
is an error.

All of it takes hours on a small host: `powercut bench` runs it by name only.  Lines are printed as
they come.
"""

from __future__ import annotations

import random
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

from rich.console import Console

from bench.figure import Figure
from powercut.model.errors import HostError
from powercut.paths import PROGRAMS, launcher

SEEDS: Final = (1, 2, 3)
RARITIES: Final = (1, 8, 10, 16, 32, 50, 64, 100, 200)
DISK: Final = "disk"
FOLDER: Final = "folder"
_PROGRAM: Final = PROGRAMS / "seldom"
_FOUND: Final = 1
"""Exit status of a LOSSY verdict."""

_SAFE: Final = 0
_PATIENCE_S: Final = 900.0


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
class Trial:
    """One program, recorded and judged once."""

    planted: Planted
    medium: str
    seed: int
    status: int
    seconds: float

    @property
    def found(self) -> bool:
        """Whether the verdict is LOSSY."""
        return self.status == _FOUND

    def __str__(self) -> str:
        said = {_FOUND: "LOSSY", _SAFE: "SAFE"}.get(self.status, f"status {self.status}")
        one = self.planted
        what = f"{one.fault}, one in {one.one_in}" if one.one_in else f"{one.fault}, honest"
        return f"{self.medium}: {what}, seed {self.seed}: {said}, {self.seconds:.1f} s"


def trials(
    programs: Sequence[Planted], medium: str, seeds: Sequence[int] = SEEDS
) -> Iterator[Trial]:
    """Each program with each seed.  Raises HostError for an honest one that is LOSSY."""
    for planted, seed in product(programs, seeds):
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="powercut-bench-") as folder:
            status = _status(planted, medium, seed, Path(folder))
        trial = Trial(planted, medium, seed, status, time.monotonic() - begun)
        if trial.found and not planted.one_in:
            raise HostError(f"an honest program is LOSSY: {trial}")
        yield trial


def _status(planted: Planted, medium: str, seed: int, folder: Path) -> int:
    program = planted.command(seed)
    settings = ("--results", str(folder / "results"), "--seed", str(seed))
    if medium == DISK:
        command = (launcher(), "record", *settings, "--", *program)
    else:
        store = folder / "store"
        subprocess.run((*program, "setup", str(store)), check=True, env={"POWERCUT_FD": "1"})
        check = shlex.join((*program, "check", str(store)))
        run = (*program, "run", str(store))
        command = (launcher(), "capture", str(store), *settings, "--check", check, "--", *run)
    done = subprocess.run(
        command, timeout=_PATIENCE_S, check=False, capture_output=True, cwd=folder
    )
    return done.returncode


def bench_seldom_faults() -> list[Figure]:
    """Found of all on each medium.  Raises HostError for an honest program that is LOSSY."""
    console = Console()
    figures = []
    for medium in (DISK, FOLDER):
        for trial in trials(TWINS, medium):
            console.print(str(trial))
        seen = []
        for trial in trials(PLANTED, medium):
            console.print(str(trial))
            seen.append(trial)
        found = sum(one.found for one in seen)
        name = f"faults in one operation of 1 to 200, {medium}, found"
        figures.append(Figure(name, found, len(seen), "all", "trials"))
    return figures
