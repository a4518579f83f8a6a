# SPDX-License-Identifier: Apache-2.0
"""`powercut check-program PROGRAM`: does a program keep the contract?  Nothing is cut."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from powercut.cli.options import seed_option
from powercut.cli.output import console_beside
from powercut.cli.program_options import variables


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="PROGRAM...")
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 3600),
    default=20.0,
    show_default=True,
    help="What each verb may take.",
)
@click.option("--env", multiple=True, metavar="NAME[=VALUE]", help="As for `record`.")
@seed_option
def check_program(
    command: Sequence[str], seconds: float, env: Sequence[str], seed: int | None
) -> int:
    """Tries setup, run and check of a program on this host, without a disk and without a cut.

    Exit status: 0 the program keeps the contract, 1 it does not.
    """
    from powercut.rig.environment import withheld
    from powercut.scenario.settings import Parameters
    from powercut.trial.contract import try_contract
    from powercut.workload.port import Run
    from powercut.workload.program.find import find_program
    from powercut.workload.program.workload import ProgramWorkload

    console = console_beside()
    settings = find_program(command).model_copy(update={"env": variables(env)})
    program = ProgramWorkload(Parameters(workload=settings))
    kept = True
    for step in try_contract(program, seed=seed or 0, seconds=seconds):
        kept = not step.problems
        mark = "[green]✓[/]" if kept else "[red]✗[/]"
        console.print(f"{mark} ", end="")
        console.print(step.what, markup=False, highlight=False)
        for problem in step.problems:
            console.print(f"    {problem}", markup=False, highlight=False)
    if names := withheld(os.environ, program.contents(Run(bytes(16))).environment):
        told = f"\nNot passed to the program (--env NAME passes one): {', '.join(names)}"
        console.print(told, markup=False, highlight=False)
    if kept:
        words = " ".join(command)
        console.print(f"\nNow cut its power: powercut try -- {words}", markup=False)
    return 0 if kept else 1
