# SPDX-License-Identifier: Apache-2.0
"""`powercut show`: explains a result."""

from __future__ import annotations

from pathlib import Path

import click

from powercut.cli.lookup import find_result
from powercut.cli.options import FILE
from powercut.cli.output import console_beside


@click.command()
@click.argument("directory", type=FILE)
@click.option("--cell", help="The cell to explain; by default every one that is not SAFE.")
@click.option("--trial", type=click.IntRange(1), help="Its trial; by default the worst.")
def show(directory: Path, cell: str | None, trial: int | None) -> int:
    """Explains a result: what was acknowledged, what came back, and what happened when."""
    from powercut.report.terminal.show import print_story

    print_story(console_beside(), find_result(directory), cell=cell, trial=trial)
    return 0
