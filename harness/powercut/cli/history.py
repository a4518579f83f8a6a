# SPDX-License-Identifier: Apache-2.0
"""`powercut history`: certificates over time."""

from __future__ import annotations

from pathlib import Path

import click

from powercut.cli.options import FILE
from powercut.paths import RESULTS


@click.command()
@click.argument("results", type=FILE, default=RESULTS, metavar="[RESULTS]")
@click.option("--profile", metavar="NAME", help="Only the runs of this profile.")
@click.option("--html", "page", type=FILE, help="Write the page here, not beside the runs.")
def history(results: Path, profile: str | None, page: Path | None) -> int:
    """Shows certificates over time, and what changed with the last run.

    Reads every certificate below RESULTS/certify, by default those of this checkout.  Changes
    of verdicts come first, then costs that changed beyond noise, then versions.
    """
    from powercut.cli.console import PlainConsole
    from powercut.report.history import read_history
    from powercut.report.page.history import print_history, write_history

    console = PlainConsole()
    found = read_history(results, profile=profile)
    print_history(console, found)
    path = write_history(found, page)
    console.print(f"\n   page: {path}", soft_wrap=True, highlight=False, markup=False)
    return 0
