# SPDX-License-Identifier: Apache-2.0
"""`powercut record -- PROGRAM`: anybody's program on a captured disk; cut, recovered, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from powercut.cli.options import json_option, results_option, seed_option
from powercut.cli.output import console_beside, write_json
from powercut.cli.program_options import (
    ProgramCommand,
    dry_run_option,
    place_options,
    recording_options,
)
from powercut.cli.program_options import dry_run as try_without_cut
from powercut.cli.run import junit_option, tell_ci
from powercut.model.errors import UsageError

if TYPE_CHECKING:
    from powercut.scenario.program_text import RecordOptions

_EPILOG = (
    "PROGRAM is one executable, which may be a shell script, with the verbs `setup DIR`, "
    "`run DIR` and `check DIR`; docs/adding-a-program.md has the contract and examples. "
    "It runs in User-Mode Linux on this host's own files, read-only, or where --root says; DIR "
    "lies on the disk under test. `--dry-run` tries it without a cut. What is "
    "run is a scenario of one cell, which lies beside the results: for a matrix, trials or a "
    "longer look edit a copy and `powercut run` it."
)


@click.command(epilog=_EPILOG, cls=ProgramCommand)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- PROGRAM...")
@dry_run_option
@recording_options
@place_options
@click.option(
    "--trace-syncs",
    is_flag=True,
    help="Record who asks for durable data, too: `audit flushes` then says so of each flush.",
)
@seed_option
@results_option
@json_option("the results")
@junit_option
def record(
    command: Sequence[str],
    dry_run: bool,
    options: RecordOptions,
    place: Mapping[str, Any],
    trace_syncs: bool,
    seed: int | None,
    results: Path,
    json_file: Path | None,
    junit_file: Path | None,
) -> int:
    """Runs a program on a captured disk, cuts the power, recovers, and lets it check.

    Exit status: 0 SAFE, 1 LOSSY, 3 INCONCLUSIVE.
    """
    from powercut.campaign.runner import run_scenarios
    from powercut.cli.interrupt import Resumable
    from powercut.report.publish import write_reports
    from powercut.report.terminal.program import print_program_run
    from powercut.report.terminal.progress import ProgressView
    from powercut.scenario.program_text import program_scenario
    from powercut.scenario.settings_program import ON_HOST
    from powercut.store.layout import ResultDir
    from powercut.workload.program.workload import find_program

    settings = find_program(command, inside=place["root"] != ON_HOST)
    settings = settings.model_copy(update=place)
    if dry_run:
        if place["root"] != ON_HOST:
            raise UsageError(
                "--dry-run runs the program on this host's files", hint="leave --root out"
            )
        return try_without_cut(settings, options, seed, json_file)
    if trace_syncs:
        settings = settings.model_copy(update={"syncs": "traced"})
    scenario = program_scenario(settings, options)
    console = console_beside(json_file)
    with ProgressView(console) as view, Resumable("run", view).heard() as progress:
        outcome = run_scenarios([scenario], seed=seed, results=results, on_event=progress)
    (run,) = outcome.runs
    write_reports(ResultDir.open(Path(run.result_directory)))
    print_program_run(console, run)
    write_json(outcome.model_dump_json(indent=1), json_file)
    tell_ci(outcome.runs, junit_file, quiet=json_file == Path("-"))
    return outcome.exit_status
