# SPDX-License-Identifier: Apache-2.0
"""`powercut fetch`: recordings that hosts of a fleet made and kept."""

from __future__ import annotations

from pathlib import Path

import click

from powercut.cli.options import FILE
from powercut.cli.output import TROUBLE, echo


@click.command()
@click.argument("run", type=FILE)
@click.option(
    "--hosts", "hosts_file", required=True, metavar="HOSTS", type=FILE, help="Hosts file."
)
@click.option("--only", multiple=True, metavar="CELL", help="Only recordings of this cell.")
def fetch(run: Path, hosts_file: Path, only: tuple[str, ...]) -> int:
    """Fetches the recordings of a run that hosts of a fleet made, and judges each again.

    What comes has to be what the host named when it told its verdict.

    Exit status: 0 all came; 3 one did not, or is not what it was.
    """
    from powercut.fleet.start import fetch_recordings

    came, problems = fetch_recordings(
        run,
        hosts_file,
        wanted=lambda trial: not only or trial.path.parent.name in only,
        on_event=lambda notice: echo(notice.text),
    )
    for problem in problems:
        echo(problem)
    echo(f"{came} recordings fetched" + (f", {len(problems)} not" if problems else ""))
    return TROUBLE if problems else 0
