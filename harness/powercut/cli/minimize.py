# SPDX-License-Identifier: Apache-2.0
"""`powercut minimize`: the smallest set of lost writes that still loses a record."""

from __future__ import annotations

import time
from pathlib import Path

import click

from powercut.cli.folder_states import minimize_capture
from powercut.cli.lookup import is_capture
from powercut.cli.options import (
    STATE_EPILOG,
    budget_option,
    engine_option,
    json_option,
    promise_option,
    recording_argument,
    recovery_kernel_option,
    run_check_option,
    state_argument,
)
from powercut.cli.output import console_beside, write_json
from powercut.cli.works_on import require_works_on
from powercut.model.errors import UsageError


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
    if is_capture(recording):
        return minimize_capture(
            recording, state, lsn=lsn, budget=budget, promise=promise, json_file=json_file
        )
    if promise is not None:
        raise UsageError("--promise is for captured folders", hint="leave it out")
    from powercut.explore.request import Budget
    from powercut.recording.materialize import open_recording
    from powercut.report.terminal.witness import print_witness
    from powercut.store.witness import write_witness
    from powercut.witness.minimize import minimize as search

    begun = time.monotonic()
    allowed = Budget.parse(budget)
    opened = open_recording(recording)
    console = console_beside(json_file)
    with console.status("booting the recovery engine") as status:
        witness = search(
            opened,
            state,
            lsn=lsn,
            budget=allowed,
            begun=begun,
            confirm=confirm,
            engine=engine,
            kernel=recovery_kernel,
            progress=lambda tests, left: status.update(
                f"{tests} states recovered, {left} losses left to tell apart"
            ),
        )
    write_witness(opened.directory, witness)
    print_witness(console, witness, opened.directory.path)
    write_json(witness.model_dump_json(indent=1), json_file)
    return 0
