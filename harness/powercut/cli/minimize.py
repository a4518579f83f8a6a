# SPDX-License-Identifier: Apache-2.0
"""`powercut minimize`: the smallest set of lost writes that still loses a record."""

from __future__ import annotations

import time
from pathlib import Path

import click

from powercut.cli.options import (
    STATE_EPILOG,
    budget_option,
    engine_option,
    json_option,
    promise_named,
    promise_option,
    recording_argument,
    recovery_kernel_option,
    refuse_others,
    run_check_option,
    state_argument,
)
from powercut.cli.output import console_beside, write_json
from powercut.cli.works_on import require_works_on


@click.command(epilog=STATE_EPILOG)
@recording_argument
@state_argument(required=False)
@click.option(
    "--lsn", type=click.IntRange(1), help="The record, or operation, that must stay lost."
)
@budget_option("2000", "States to recover at most, or a time (30s, 5m) for all of it.")
@click.option(
    "--confirm/--no-confirm",
    default=True,
    show_default=True,
    help="Recover the witness in a guest with the recorded kernel, too.",
)
@engine_option
@recovery_kernel_option
@promise_option
@run_check_option
@json_option("the witness")
def minimize(
    recording: Path,
    state: str | None,
    lsn: int | None,
    budget: str,
    confirm: bool,
    engine: str,
    recovery_kernel: str,
    promise: str | None,
    json_file: Path | None,
) -> int:
    """Finds the smallest set of lost writes that still loses a record, and explains it."""
    require_works_on("minimize", recording)
    from powercut.campaign.folder import minimize_capture
    from powercut.explore.request import Budget
    from powercut.recording.folder import FolderRecording
    from powercut.recording.open_recording import open_recording
    from powercut.report.publish import write_recording_page
    from powercut.report.terminal.witness import print_witness
    from powercut.store.witness import write_witness
    from powercut.witness.minimize import minimize as search

    begun = time.monotonic()
    allowed = Budget.parse(budget)
    opened = open_recording(recording, promise=promise_named(promise), state=state)
    console = console_beside(json_file)
    with console.status("starting") as status:

        def progress(tests: int, left: int) -> None:
            status.update(f"{tests} states checked, {left} losses left to tell apart")

        if isinstance(opened, FolderRecording):
            refuse_others(("lsn", "budget", "promise", "json_file"))
            witness = minimize_capture(
                opened, state, operation=lsn, budget=allowed, progress=progress
            )
        else:
            witness = search(
                opened,
                state,
                lsn=lsn,
                budget=allowed,
                begun=begun,
                confirm=confirm,
                engine=engine,
                kernel=recovery_kernel,
                progress=progress,
            )
    write_witness(opened.directory.path, witness)
    if witness.promise:
        write_recording_page(opened.directory.path)
    print_witness(console, witness, opened.directory.path)
    write_json(witness.model_dump_json(indent=1), json_file)
    return 0
