# SPDX-License-Identifier: Apache-2.0
"""As many cuts as a confidence takes, and how long they will take here."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from powercut.model.confidence import trials_needed
from powercut.model.errors import PowercutError
from powercut.scenario.plan import Cell, Plan, draw_trials
from powercut.scenario.settings import Expect
from powercut.trial.controls import same_run

if TYPE_CHECKING:
    from powercut.store.trial_result import TrialResult

AT_MOST: Final = 0.01
"""The upper bound on the loss probability that is asked for by default."""

_RUNS_LOOKED_AT: Final = 5


@dataclass(frozen=True)
class Aim:
    """To be sure with `confidence` that a cut loses a record with less than `at_most`."""

    confidence: float
    at_most: float = AT_MOST

    @property
    def trials(self) -> int:
        """How many cuts without a loss that takes."""
        return trials_needed(self.at_most, self.confidence)

    @property
    def options(self) -> list[str]:
        """The options of the command line that ask for it."""
        return ["--confidence", repr(self.confidence), "--at-most", repr(self.at_most)]

    def __str__(self) -> str:
        sure, rare = f"{100 * self.confidence:.10g} %", f"{100 * self.at_most:.10g} %"
        return (
            f"{self.trials:,} cuts without a loss make it {sure} sure that fewer than {rare} of "
            "such cuts lose a record"
        )


def aims_at(cell: Cell) -> bool:
    """Whether the number of cuts matters: a loss that is expected needs to be seen once."""
    return cell.expect is not Expect.LOSSY


def planned_for(plan: Plan, aim: Aim) -> Plan:
    """`plan` with as many trials of each cell that should be SAFE as `aim` takes."""
    return replace(
        plan,
        cells=tuple(
            replace(cell, trials=draw_trials(plan.seed, cell.name, cell.parameters, aim.trials))
            if aims_at(cell)
            else cell
            for cell in plan.cells
        ),
    )


def seconds_of(trials: Iterable[TrialResult]) -> float | None:
    """How long one of `trials` took, in the middle; None if there is none."""
    return statistics.median([sum(t.timings_s.values()) for t in trials] or [0.0]) or None


def past_seconds(results: Path, plan: Plan) -> dict[str, float]:
    """How long a trial of each cell took in the latest runs of the scenario on this host.

    By `same_run`.  What cannot be read, or was made by another version, tells nothing.
    """
    from powercut.store.layout import ResultDir  # noqa: PLC0415

    folders = (results / plan.scenario).glob("2*Z-*")
    known: dict[str, float] = {}
    for folder in sorted(folders, reverse=True)[:_RUNS_LOOKED_AT]:
        try:
            cells = ResultDir(folder).read_verdict().cells
        except PowercutError:
            continue
        for cell in cells:
            seconds = seconds_of(cell.trials)
            if seconds is not None:
                known.setdefault(same_run(cell.parameters), seconds)
    return known


def total_seconds(plan: Plan, known: Mapping[str, float], jobs: int) -> float | None:
    """How long all trials of `plan` take, roughly; None if nothing is known of any cell.

    A cell of which nothing is known takes as long as the slowest that is known.
    """
    if not known:
        return None
    slowest = max(known.values())
    each = (known.get(same_run(cell.parameters), slowest) * len(cell.trials) for cell in plan.cells)
    # More jobs than cores wait for each other.
    return sum(each) / min(jobs, os.cpu_count() or 1)


def in_words(seconds: float) -> str:
    """A time that is only roughly known."""
    if seconds < 90:
        return f"about {seconds:.0f} s"
    minutes = seconds / 60
    return f"about {minutes:.0f} min" if minutes < 90 else f"about {minutes / 60:.1f} h"
