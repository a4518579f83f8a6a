# SPDX-License-Identifier: Apache-2.0
"""Whether a program whose promises rest on luck is found by default settings.

workloads/programs/lucky keeps 200 numbers durable, in eleven ways that hold as long as nobody else
commits, and in ten that hold as long as no sync is slow; workloads/programs/ranges in fourteen that
hold if another page of the file is written with the one that is synced.  Each has an honest twin,
and each is recorded as a user would, with only the seed given (bench.planted_trials).  An honest
twin that is LOSSY is an error.

All of it takes hours on a small host: `powercut bench` runs it by name only, and slices of it add
up in build/lucky-faults/trials.jsonl.  `lucky-faults:disk,unlink,fault,seed-2` runs what has all of
these properties; what surprises keeps its results beside that file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from rich.console import Console

from bench.figure import Figure
from bench.kept import Kept
from bench.planted_trials import MEDIA, SEEDS, figures, tried
from powercut.paths import BUILD, PROGRAMS

ALONE: Final = (
    "unlink", "shell", "rename", "link", "symlink", "truncate", "rewrite", "marker", "pair",
    "directory", "clear",
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

    @property
    def command(self) -> tuple[str, ...]:
        """The program."""
        return command(self.way, honest=self.honest)

    @property
    def told(self) -> Mapping[str, Any]:
        """What its line says of it."""
        return asdict(self)

    def __str__(self) -> str:
        which = "honest" if self.honest else "fault"
        return f"{self.way}-{which}-{self.medium}-seed-{self.seed}"


def cells() -> Iterator[Cell]:
    """All of them, those with a fault first."""
    for seed in SEEDS:
        for honest in (False, True):
            for way in (*ALONE, *IMPATIENT, *PARTIAL):
                yield from (Cell(way, honest, medium, seed) for medium in MEDIA)


def bench_lucky_faults(properties: str = "") -> list[Figure]:
    """Found of all on each medium, of those that have all of the properties.

    Raises HostError for an honest program that is LOSSY, UsageError for properties that none has.
    """
    console = Console(soft_wrap=True)
    trials = tried("lucky-faults", cells(), properties, KEPT, console)
    return figures("promises that rest on luck", trials)
