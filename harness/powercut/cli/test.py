# SPDX-License-Identifier: Apache-2.0
"""`powercut test`: powercut's own tests."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from powercut.cli.output import INTERRUPTED, TROUBLE
from powercut.paths import ROOT


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def test(arguments: Sequence[str]) -> int:
    """Runs powercut's own tests; takes the arguments of pytest."""
    import subprocess

    # A process of its own: pytest cannot rewrite the assertions of a plugin's package that
    # is imported already, says so, and warnings are errors here.
    status = subprocess.call([sys.executable, "-m", "pytest", *arguments], cwd=ROOT)
    # pytest's own statuses: 0 passed, 1 failed, 2 interrupted, 3 internal, 4 usage, 5 none.
    return {0: 0, 1: 1, 2: INTERRUPTED, 4: 2}.get(status, TROUBLE)
