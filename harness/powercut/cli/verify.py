# SPDX-License-Identifier: Apache-2.0
"""`powercut verify`: judges a result, or a bundle, again."""

from __future__ import annotations

from pathlib import Path

import click

from powercut.cli.bundle import verify_bundle
from powercut.cli.capture import verify_capture
from powercut.cli.lookup import find_result, is_bundle, is_capture
from powercut.cli.options import FILE, json_option, run_check_option
from powercut.cli.output import TROUBLE, console_beside, echo, write_json


@click.command()
@click.argument("directory", type=FILE)
@json_option("the results")
@run_check_option
def verify(directory: Path, json_file: Path | None) -> int:
    """Judges a result, or a bundle, again, offline, from its recordings alone."""
    if is_capture(directory):
        return verify_capture(directory, json_file)
    if is_bundle(directory):
        return verify_bundle(directory, json_file)
    from powercut.campaign.verify import verify as judge_again
    from powercut.recording.consent import foreign_commands, not_repeated
    from powercut.report.terminal.progress import ProgressView
    from powercut.report.terminal.table import print_run
    from powercut.store.results import CampaignOutcome

    console = console_beside(json_file)
    found = find_result(directory)
    with ProgressView(console) as view:
        result = judge_again(found.path, on_event=view)
    print_run(console, result)
    untried = not_repeated(foreign_commands(found.trials()))
    for line in untried:
        echo(f"not repeated: {line}", err=json_file == Path("-"))
    outcome = CampaignOutcome(runs=(result,))
    write_json(outcome.model_dump_json(indent=1), json_file)
    return outcome.exit_status or (TROUBLE if untried else 0)
