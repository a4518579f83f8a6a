# SPDX-License-Identifier: Apache-2.0
"""`powercut audit flushes`: what each flush of a recording was worth."""

from __future__ import annotations

from pathlib import Path

import click

from powercut.cli.lookup import find_trials
from powercut.cli.options import (
    RESULT_HELP,
    budget_option,
    engine_option,
    json_option,
    recording_argument,
    root_seed_option,
    run_check_option,
)
from powercut.cli.output import console_beside, write_json_object
from powercut.cli.works_on import require_works_on


@click.command(epilog=RESULT_HELP)
@recording_argument
@budget_option(
    "20s", "A number of states or a time (60s) for recoveries, 0 for none: bytes alone are asked."
)
@engine_option
@root_seed_option
@run_check_option
@click.option(
    "--table",
    is_flag=True,
    help="One table of all recordings, in Markdown, instead of a report of each: a row for each "
    "flush of a call.",
)
@json_option("the audit")
def flushes(
    recording: Path, budget: str, engine: str, seed: int, table: bool, json_file: Path | None
) -> int:
    """Shows for each flush and FUA write what would be lost if the disk ignored it alone.

    Which carry acknowledged records, which lead to them, which are idle; and which records were
    acknowledged without any.  It is kept in audit.json, of which the recording's page draws it.
    """
    from powercut.explore.request import Budget
    from powercut.recording.sealed import open_trial
    from powercut.rig.engine_choice import choose_engine
    from powercut_extras.audit.flushes import audit as run
    from powercut_extras.audit.stored import write_audit
    from powercut_extras.audit.table import print_audit_table
    from powercut_extras.audit.terminal import print_audit

    require_works_on("audit flushes", recording)
    limit = Budget(states=0) if budget.strip() == "0" else Budget.parse(budget)
    console = console_beside(json_file)
    audits = []
    for trial in find_trials(recording):
        trial.check_seal()
        recorded = open_trial(trial)
        choice = choose_engine(recorded.parameters, engine)
        with console.status("auditing") as status:

            def tell(states: int, promises: int, cell: str = recorded.record.cell) -> None:
                status.update(f"auditing {cell}: {states:,} states, of {promises:,} promises")

            audited = run(recorded, budget=limit, engine=choice.name, seed=seed, listener=tell)
        write_audit(trial, audited)
        if not table:
            print_audit(console, audited)
        for gap in recorded.gaps:
            console.print(f"{audited.cell}: the recording is not whole: {gap}", style="yellow")
        audits.append(audited)
    if table:
        print_audit_table(console, audits)
    told = [one.model_dump(mode="json") for one in audits]
    write_json_object("audits", {"audits": told}, json_file)
    return 0
