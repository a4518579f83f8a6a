# SPDX-License-Identifier: Apache-2.0
"""Planted programs and honest twins, each recorded as a user would: how many faults are found.

A family of them has cells, each a program on one medium with one seed, and keeps a line for each
trial: one that has its line is not run again.  An honest program that is LOSSY is an error.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

from rich.console import Console

from bench.figure import Figure
from bench.kept import Kept
from powercut.model.errors import HostError, UsageError
from powercut.paths import launcher

SEEDS: Final = (1, 2, 3)
DISK: Final = "disk"
FOLDER: Final = "folder"
MEDIA: Final = (DISK, FOLDER)
FOUND: Final = 1
"""Exit status of a LOSSY verdict."""

SAFE: Final = 0
NO_END: Final = -1
PATIENCE_S: Final = 900.0


class Cell(Protocol):
    """One program, or its twin, on one medium, with one seed."""

    @property
    def medium(self) -> str:
        """One of `MEDIA`."""

    @property
    def seed(self) -> int:
        """That of all random choices."""

    @property
    def honest(self) -> bool:
        """Whether nothing may be found."""

    @property
    def command(self) -> tuple[str, ...]:
        """The program."""

    @property
    def words(self) -> frozenset[str]:
        """What it can be chosen by."""

    @property
    def told(self) -> Mapping[str, Any]:
        """What its line says of it, and of no other."""


C = TypeVar("C", bound=Cell)


@dataclass(frozen=True)
class Trial(Generic[C]):
    """What became of a cell: an exit status, and the time that it took."""

    cell: C
    status: int
    seconds: float

    @property
    def found(self) -> bool:
        """Whether the verdict is LOSSY."""
        return self.status == FOUND

    @property
    def expected(self) -> bool:
        """Whether a fault was found, or an honest program is SAFE."""
        return self.status == (SAFE if self.cell.honest else FOUND)

    def __str__(self) -> str:
        said = {FOUND: "LOSSY", SAFE: "SAFE", NO_END: f"no verdict in {PATIENCE_S:.0f} s"}
        verdict = said.get(self.status, f"status {self.status}")
        return f"{self.cell}: {verdict}, {self.seconds:.1f} s"


def tried(
    name: str, cells: Iterable[C], properties: str, kept: Kept, console: Console
) -> list[Trial[C]]:
    """The trials of the cells that have all of the properties, those of earlier runs from their
    lines.  Raises UsageError for properties that none has.
    """
    wanted = frozenset(properties.split(",")) - {""}
    chosen = [cell for cell in cells if wanted <= cell.words]
    if not chosen:
        raise UsageError(f"no trial of {name} is {properties}")
    lines = kept.lines()
    trials = []
    for cell in chosen:
        line = next((one for one in lines if cell.told.items() <= one.items()), None)
        if line is None:
            trial = _run(cell, kept.folder)
            said = {"status": trial.status, "seconds": round(trial.seconds, 1)}
            kept.add({**cell.told, **said})
        else:
            trial = Trial(cell, line["status"], line["seconds"])
        console.print(str(trial))
        trials.append(trial)
    return trials


def figures(what: str, trials: Sequence[Trial[C]]) -> list[Figure]:
    """Found of all on each medium.  Raises HostError for an honest program that is LOSSY."""
    if wrong := [str(one) for one in trials if one.found and one.cell.honest]:
        raise HostError(f"an honest program is LOSSY: {'; '.join(wrong)}")
    result = []
    for medium in MEDIA:
        seen = [one for one in trials if one.cell.medium == medium and not one.cell.honest]
        if seen:
            found = sum(one.found for one in seen)
            result.append(Figure(f"{what}, {medium}, found", found, len(seen), "all", "trials"))
    return result


def _run(cell: C, kept: Path) -> Trial[C]:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="powercut-bench-") as name:
        folder = Path(name)
        trial = Trial(cell, _status(cell, folder), time.monotonic() - begun)
        if not trial.expected:
            shutil.copytree(folder, kept / str(cell), symlinks=True, dirs_exist_ok=True)
    return trial


def _status(cell: Cell, folder: Path) -> int:
    """Exit status of its recording; results are in `folder`."""
    settings = ("--results", str(folder / "results"), "--seed", str(cell.seed))
    program = cell.command
    if cell.medium == DISK:
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
