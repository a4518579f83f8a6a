# SPDX-License-Identifier: Apache-2.0
"""`powercut try -- PROGRAM`: does it keep what it acknowledges?  One answer, with its cause."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from powercut.cli.options import json_option, results_option, scratch_option, seed_option
from powercut.cli.output import console_beside, write_json
from powercut.cli.program_options import (
    ProgramCommand,
    dry_run_option,
    env_option,
    recording_options,
)
from powercut.cli.program_options import dry_run as try_without_cut
from powercut.cli.run import junit_option, tell_ci

if TYPE_CHECKING:
    from powercut.scenario.program_text import RecordOptions

_EPILOG = (
    "PROGRAM is one executable, which may be a shell script, with the verbs `setup DIR`, "
    "`run DIR` and `check DIR`: docs/adding-a-program.md has the contract and examples. It is "
    "tried without a cut first. Then it runs twice: on this host on recorded files, which show "
    "what it synced and what it left to the file system, and in User-Mode Linux on a recorded "
    "disk. Neither needs root. Without --acks 500 operations are the least: it goes on for a "
    "quarter of --seconds, and while new kinds of calls come, up to 2,000."
)


@click.command(name="try", epilog=_EPILOG, cls=ProgramCommand)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- PROGRAM...")
@click.option(
    "--portable",
    is_flag=True,
    help="Count what POSIX alone would lose as a loss, not what this file system keeps anyway.",
)
@click.option(
    "--install",
    is_flag=True,
    help="Install with apt-get, and with sudo if need be, what this host lacks.",
)
@dry_run_option
@env_option
@scratch_option
@recording_options
@seed_option
@results_option
@json_option("the results")
@junit_option
def try_(
    command: Sequence[str],
    portable: bool,
    install: bool,
    dry_run: bool,
    env: tuple[str, ...],
    scratch: tuple[str, ...],
    options: RecordOptions,
    seed: int | None,
    results: Path,
    json_file: Path | None,
    junit_file: Path | None,
) -> int:
    """Tests that a program keeps what it acknowledges, on a disk and on files at once.

    Exit status: 0 SAFE, 1 LOSSY, 2 the program does not keep the contract, 3 INCONCLUSIVE.
    """
    from powercut.campaign.program_try import TryOrder, require_contract, try_program
    from powercut.cli.interrupt import Resumable
    from powercut.report.publish import write_reports
    from powercut.report.terminal.progress import ProgressView
    from powercut.report.terminal.table import print_run
    from powercut.scenario.plan import fresh_seed
    from powercut.store.layout import ResultDir
    from powercut.store.results import CampaignOutcome
    from powercut.workload.program.workload import find_program

    given = click.get_current_context().get_parameter_source("acks")
    goes_on = given is click.core.ParameterSource.DEFAULT
    if install:
        from powercut.doctor.packages import install as install_packages

        install_packages()
    program = find_program(command).model_copy(update={"env": env, "scratch": scratch})
    if dry_run:
        return try_without_cut(program, options, seed, json_file)
    order = TryOrder(
        program=program,
        options=options,
        seed=fresh_seed() if seed is None else seed,
        results=results,
        portable=portable,
        goes_on=goes_on,
    )
    console = console_beside(json_file)
    with console.status("trying the program without a cut"):
        require_contract(order)
    with ProgressView(console) as view, Resumable("run", view).heard() as progress:
        run = try_program(order, progress)
    print_run(console, run)  # before the pages, which are a copy of it
    write_reports(ResultDir.open(Path(run.result_directory)))
    outcome = CampaignOutcome(runs=(run,))
    write_json(outcome.model_dump_json(indent=1), json_file)
    tell_ci(outcome.runs, junit_file, quiet=json_file == Path("-"))
    return outcome.exit_status
