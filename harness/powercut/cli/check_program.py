# SPDX-License-Identifier: Apache-2.0
"""`powercut check-program PROGRAM`: does a program keep the contract?  Nothing is cut."""

from __future__ import annotations

from collections.abc import Sequence

import click

from powercut.cli.options import seed_option
from powercut.cli.output import console_beside


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="PROGRAM...")
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 3600),
    default=20.0,
    show_default=True,
    help="What each verb may take.",
)
@seed_option
def check_program(command: Sequence[str], seconds: float, seed: int | None) -> int:
    """Tries setup, run and check of a program on this host, without a disk and without a cut.

    Exit status: 0 the program keeps the contract, 1 it does not.
    """
    from powercut.scenario.settings import Parameters
    from powercut.trial.contract import try_contract
    from powercut.workload.program.find import find_program
    from powercut.workload.program.workload import ProgramWorkload

    console = console_beside()
    program = ProgramWorkload(Parameters(workload=find_program(command)))
    kept = True
    for step in try_contract(program, seed=seed or 0, seconds=seconds):
        kept = not step.problems
        mark = "[green]✓[/]" if kept else "[red]✗[/]"
        console.print(f"{mark} ", end="")
        console.print(step.what, markup=False, highlight=False)
        for problem in step.problems:
            console.print(f"    {problem}", markup=False, highlight=False)
    if kept:
        words = " ".join(command)
        console.print(f"\nNow cut its power: powercut try -- {words}", markup=False)
    return 0 if kept else 1
