# SPDX-License-Identifier: Apache-2.0
"""`powercut analyze`: which records were acknowledged before they were durable."""

from __future__ import annotations

from pathlib import Path

import click

from powercut.cli.imported import analyze_import
from powercut.cli.lookup import find_trials, is_import
from powercut.cli.options import RESULT_HELP, recording_argument
from powercut.cli.output import console_beside


@click.command(epilog=RESULT_HELP)
@recording_argument
def analyze(recording: Path) -> int:
    """Prints which records were acknowledged before they were durable, and for how long."""
    if is_import(recording):
        return analyze_import(recording)
    from powercut.crash.exposure import exposure
    from powercut.recording.trial_recording import open_trial
    from powercut.report.terminal.exploration import print_exposure

    console = console_beside()
    status = 0
    for trial in find_trials(recording):
        trial.check_seal()
        recorded = open_trial(trial)
        record = recorded.record
        report = exposure(recorded.evidence)
        title = f"{record.scenario}, {record.cell}, trial {record.trial.number}"
        print_exposure(console, title, report)
        for gap in recorded.gaps:
            console.print(f"the recording is not whole: {gap}", style="yellow")
        exposed = bool(report.exposed.any())
        unknown = bool(recorded.gaps or report.unknown_lsns)
        if exposed != (record.parameters.expect.value == "lossy") and (exposed or not unknown):
            status = 1
        elif unknown and not exposed and not status:
            status = 3
    return status
