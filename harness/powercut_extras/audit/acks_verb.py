# SPDX-License-Identifier: Apache-2.0
"""`powercut audit acks`: which records were acknowledged before they were durable."""

from __future__ import annotations

from pathlib import Path

import click

from powercut.cli.extras import foreign_logs
from powercut.cli.lookup import find_trials, is_import
from powercut.cli.options import RESULT_HELP, json_option, recording_argument
from powercut.cli.output import console_beside, write_json_object
from powercut.cli.works_on import require_works_on


@click.command(epilog=RESULT_HELP)
@recording_argument
@json_option("the records")
def acks(recording: Path, json_file: Path | None) -> int:
    """Prints which records were acknowledged before they were durable, and for how long."""
    require_works_on("audit acks", recording)
    if is_import(recording):
        return foreign_logs().tell(recording, json_file=json_file)
    from powercut.crash.exposure import exposure
    from powercut.recording.sealed import open_trial
    from powercut_extras.audit.exposed import print_exposure

    console = console_beside(json_file)
    status, told = 0, []
    for trial in find_trials(recording):
        trial.check_seal()
        recorded = open_trial(trial)
        record = recorded.record
        report = exposure(recorded.evidence)
        title = f"{record.scenario}, {record.cell}, trial {record.trial.number}"
        print_exposure(console, title, report)
        for gap in recorded.gaps:
            console.print(f"the recording is not whole: {gap}", style="yellow")
        told.append(
            {
                "cell": record.cell,
                "trial": record.trial.number,
                "exposed": [list(one) for one in report.exposed_lsns],
                "unknown": [list(one) for one in report.unknown_lsns],
                "gaps": list(recorded.gaps),
            }
        )
        exposed = bool(report.exposed.any())
        unknown = bool(recorded.gaps or report.unknown_lsns)
        if exposed != (record.parameters.expect.value == "lossy") and (exposed or not unknown):
            status = 1
        elif unknown and not exposed and not status:
            status = 3
    write_json_object("acks", {"recordings": told}, json_file)
    return status
