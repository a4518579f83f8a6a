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
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from rich.console import Console

from bench.figure import Figure
from bench.kept import Kept
from bench.planted_trials import MEDIA, SEEDS, Trial, figures, tried
from powercut.paths import BUILD, PROGRAMS

RARITIES: Final = (1, 8, 10, 16, 32, 50, 64, 100, 200)
KEPT: Final = Kept(BUILD / "seldom-faults")
_PROGRAM: Final = PROGRAMS / "seldom"
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

    @property
    def honest(self) -> bool:
        """Whether nothing may be found."""
        return not self.planted.one_in

    @property
    def command(self) -> tuple[str, ...]:
        """The program."""
        return self.planted.command(self.seed)

    @property
    def told(self) -> Mapping[str, Any]:
        """What its line says of it."""
        return asdict(self.planted) | {"medium": self.medium, "seed": self.seed}

    def __str__(self) -> str:
        one = self.planted
        return f"{one.fault}-{one.one_in or 'honest'}-{self.medium}-seed-{self.seed}"


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


def table(trials: Sequence[Trial[Cell]]) -> list[str]:
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
    trials = tried("seldom-faults", cells(), properties, KEPT, console)
    console.print("\n".join(table(trials)))
    return figures("faults in one operation of 1 to 200", trials)
