# SPDX-License-Identifier: Apache-2.0
"""`powercut reproduce`: a loss as a program for the store's maintainers."""

from __future__ import annotations

from pathlib import Path

import click

from powercut.cli.options import (
    FILE,
    STATE_EPILOG,
    NamedPath,
    budget_option,
    json_option,
    promise_option,
    run_check_option,
    state_argument,
)
from powercut.cli.output import Speaker, console_beside, write_json_object
from powercut.cli.works_on import require_works_on
from powercut.model.errors import UsageError
from powercut_extras.reproduce.finding import reproduce_finding


@click.command(epilog=STATE_EPILOG)
@click.argument("recording", metavar="RECORDING|FINDING", type=FILE)
@state_argument(required=False)
@click.option(
    "-o",
    "--output",
    type=FILE,
    metavar="FOLDER",
    help="The new folder to write; a finding's script also runs where it lies.",
)
@click.option("--operation", type=click.IntRange(1), help="The operation that is lost.")
@click.option(
    "--twin",
    type=NamedPath(exists=True, file_okay=False),
    metavar="RECORDING",
    help="A recording of the program with the sync that is missing: it keeps the operation.",
)
@click.option("--promised", default="", metavar="TEXT", help="The words of the store's manual.")
@budget_option("500", "States to check at most for the smallest loss, or a time (30s, 5m).")
@promise_option
@run_check_option
@json_option("what was written")
def reproduce(
    recording: Path,
    state: str | None,
    output: Path | None,
    operation: int | None,
    twin: Path | None,
    promised: str,
    budget: str,
    promise: str | None,
    json_file: Path | None,
) -> int:
    """Writes the loss of a captured folder as a program that runs without powercut, with the text
    of a report, and runs it: without the calls that no sync made durable the operation is lost,
    with them it is there.

    FINDING is the name of a page of docs/findings, such as jammdb-commit: the script beside it and
    its helpers are written to FOLDER and run. Exit status: 0 the fault is there and its twin does
    not have it, 1 the fault is not there.
    """
    if not recording.exists():
        return reproduce_finding(str(recording), output, json_file)
    if output is None:
        raise UsageError("a recording's loss needs a folder: -o FOLDER")
    require_works_on("reproduce", recording)
    from powercut.crash.folder_rows import Promise
    from powercut.explore.request import Budget
    from powercut.store.folder import CaptureDir
    from powercut_extras.reproduce.folder import reproduce_capture

    if twin is not None:
        require_works_on("reproduce", twin)
    say = Speaker(json_file)
    with console_beside(json_file).status("writing and running it"):
        done = reproduce_capture(
            CaptureDir(recording.resolve()),
            state,
            output,
            operation=operation,
            budget=Budget.parse(budget),
            promise=None if promise is None else Promise(promise),
            twin=None if twin is None else CaptureDir(twin.resolve()),
            promised=promised,
        )
    made = done.made
    say(done.cause)
    say(f"{made.program}: {made.calls} calls, {len(made.lost)} of them lost")
    say(f"run without them: operation {made.operation} is lost; with --all it is there")
    if done.twin is not None:
        say(f"{done.twin.program}: operation {made.operation} is there with what was durable alone")
    write_json_object(
        "reproduce",
        {"path": str(output), "operation": made.operation, "calls": made.calls, "lost": made.lost},
        json_file,
    )
    return 0
