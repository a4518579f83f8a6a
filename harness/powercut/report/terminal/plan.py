# SPDX-License-Identifier: Apache-2.0
"""What a run would do, for a person to read before it does."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.markup import escape

from powercut.report import words
from powercut.scenario.plan import Cell, Plan

SHOWN_TRIALS = 5
"""How many trials of a cell are listed."""


def print_plan(
    console: Console, plan: Plan, runs: int, describe: Callable[[Cell], Sequence[str]] | None
) -> None:
    """Prints `plan`, which takes so many `runs` with its controls.

    `describe` gives the command line of a cell's machine; None for none.
    """

    def line(text: str) -> None:
        console.print(text, soft_wrap=True, highlight=False)

    line(
        f"[bold]{escape(plan.scenario)}[/]: {words.count(len(plan.cells), 'cell')}, "
        f"{words.count(plan.trials, 'power cut')} and {runs - plan.trials:,} for controls, "
        f"seed {plan.seed}"
    )
    if plan.description:
        line(escape(plan.description))
    for cell in plan.cells:
        line(f"\n[bold]{escape(cell.name)}[/]  expected {cell.expect.value.upper()}")
        for key, value in cell.overrides:
            if key == "expect":
                continue
            line(f"  {escape(f'{key}: {value}')}")
        for trial in cell.trials[:SHOWN_TRIALS]:
            line(f"  trial {trial.number}: seed {trial.seed}, cut {trial.trigger}")
        left = len(cell.trials) - SHOWN_TRIALS
        if left > 0:
            line(f"  and {words.count(left, 'more trial')}")
        if describe is not None:
            line(f"  machine: {escape(shlex.join(describe(cell)))}")
    line("")
