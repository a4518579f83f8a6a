# SPDX-License-Identifier: Apache-2.0
"""`powercut record -- PROGRAM`: anybody's program on a captured disk; cut, recovered, checked."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from powercut.cli.options import json_option, results_option, seed_option
from powercut.cli.output import console_beside, write_json

_EPILOG = (
    "PROGRAM is one executable, which may be a shell script, with the verbs `setup DIR`, "
    "`run DIR` and `check DIR`; docs/adding-a-program.md has the contract and examples. "
    "It runs in User-Mode Linux on this host's own files, read-only; DIR lies on the disk under "
    "test. `powercut check-program PROGRAM` tries it without a cut. What is run is a scenario of "
    "one cell, which lies beside the results: for a matrix, trials or a longer look edit a copy "
    "and `powercut run` it."
)


@click.command(epilog=_EPILOG, context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- PROGRAM...")
@click.option(
    "--filesystem",
    type=click.Choice(["ext4", "xfs", "btrfs"]),
    default="ext4",
    show_default=True,
    help="What DIR lies on.",
)
@click.option("--size", default="512MiB", show_default=True, help="Size of the disk.")
@click.option(
    "--atomic-unit",
    type=click.Choice(["1", "512", "4096"]),
    default="4096",
    show_default=True,
    help="Bytes that the disk writes whole or not at all; a write tears at multiples of it.",
)
@click.option("--mkfs", default="", help="Options for mkfs, in one string.")
@click.option("--mount", default="", help="Mount options, with commas between them.")
@click.option(
    "--acks",
    type=click.IntRange(1, 1_000_000),
    default=500,
    show_default=True,
    help="Cut after so many acknowledged operations ...",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 3600),
    default=10.0,
    show_default=True,
    help="... or after so long, whichever comes first.",
)
@click.option(
    "--budget",
    default="64",
    show_default=True,
    help="How many crash states to recover, or how long (30s, 5m).",
)
@click.option(
    "--state-timeout",
    type=click.FloatRange(1, 3600),
    default=60.0,
    show_default=True,
    help="What one recovery with its check may take, in seconds.",
)
@click.option(
    "--deadline",
    type=click.FloatRange(1, 3600),
    default=120.0,
    show_default=True,
    help="What `setup`, start, cut and recovery may take together, in seconds.",
)
@seed_option
@results_option
@json_option("the results")
def record(
    command: Sequence[str],
    filesystem: str,
    size: str,
    atomic_unit: str,
    mkfs: str,
    mount: str,
    acks: int,
    seconds: float,
    budget: str,
    state_timeout: float,
    deadline: float,
    seed: int | None,
    results: Path,
    json_file: Path | None,
) -> int:
    """Runs a program on a captured disk, cuts the power, recovers, and lets it check.

    Exit status: 0 SAFE, 1 LOSSY, 3 INCONCLUSIVE.
    """
    from powercut.campaign.runner import run_scenarios
    from powercut.cli.interrupt import Resumable
    from powercut.report.publish import write_reports
    from powercut.report.terminal.program import print_program_run
    from powercut.report.terminal.progress import ProgressView
    from powercut.scenario.program_text import RecordOptions, program_scenario
    from powercut.store.layout import ResultDir
    from powercut.workload.program.find import find_program

    settings = find_program(command)
    options = RecordOptions(
        filesystem, size, int(atomic_unit), tuple(shlex.split(mkfs)), mount, acks, seconds, budget,
        state_timeout, deadline,
    )  # fmt: skip
    scenario = program_scenario(settings, options)
    console = console_beside(json_file)
    with ProgressView(console) as view, Resumable("run", view).heard() as progress:
        outcome = run_scenarios([scenario], seed=seed, results=results, on_event=progress)
    (run,) = outcome.runs
    write_reports(ResultDir.open(Path(run.result_directory)))
    print_program_run(console, run)
    write_json(outcome.model_dump_json(indent=1), json_file)
    return outcome.exit_status
