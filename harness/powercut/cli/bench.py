# SPDX-License-Identifier: Apache-2.0
"""`powercut bench`: what powercut itself costs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from powercut.cli.options import NamedPath, json_option
from powercut.model.errors import UsageError
from powercut.paths import INSTALLED, ROOT


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--against",
    type=NamedPath(exists=True, file_okay=False),
    metavar="CHECKOUT",
    help="Another checkout of powercut, measured in turn (program-states, same-states).",
)
@json_option("the figures")
def bench(names: Sequence[str], against: Path | None, json_file: Path | None) -> int:
    """Measures powercut itself, each figure as a ratio within one run; from a checkout alone."""
    if INSTALLED:
        raise UsageError(
            "powercut bench measures powercut itself and is not part of an installed powercut",
            hint="in a checkout of powercut: ./powercut bench",
        )
    sys.path[:0] = [str(ROOT / name) for name in ("tests", "tests/support")]
    from bench.suite import main as measure

    return measure(names, json_file, against)
