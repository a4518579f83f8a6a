# SPDX-License-Identifier: Apache-2.0
"""`powercut test`: powercut's own tests, or those of the folder that the caller is in."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from powercut.cli.output import INTERRUPTED, TROUBLE
from powercut.model.errors import UsageError
from powercut.paths import BUILD, INSTALLED, ROOT

WORKERS = ("-n", "4", "--dist", "loadscope", "--no-loadscope-reorder")
"""Two processes more than a small host has processors: tests wait for disks, kernels and deadlines.
tests/conftest.py says which of them stay in one."""


def _chooses(arguments: Sequence[str]) -> bool:
    """Whether pytest's arguments say which tests to run, or how many processes.

    A marker alone may still leave thousands, but for campaigns: these may want the host to
    themselves.
    """
    processes = ("-n", "--numprocesses", "--dist", "-s", "--capture=no", "--pdb", "-k")
    words = iter(arguments)
    for word in words:
        if word == "-m":
            if "campaign" in next(words, ""):
                return True
        elif word.startswith(processes) or not word.startswith("-"):
            return True
    return False


OWN = ("scenarios", "test_power_cuts.py")
"""What `powercut init` makes, of what pytest runs."""


def _collected(arguments: Sequence[str], folder: Path) -> list[str]:
    """What pytest is to collect in a project: what is named, else what `powercut init` made there.

    Another test of the project, perhaps a broken one, is none of ours.  Raises UsageError.
    """
    if any((folder / argument.partition("::")[0]).exists() for argument in arguments):
        return []
    made = [name for name in OWN if (folder / name).exists()]
    if not made:
        raise UsageError(
            f"{folder}: there is neither {' nor '.join(OWN)}",
            hint="name what to run, or `powercut init` writes a first one",
        )
    return made


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def test(arguments: Sequence[str]) -> int:
    """Runs pytest with powercut's plugin, and takes its arguments.

    In a checkout these are powercut's own tests; installed, what `powercut init` made in the
    current folder, or what ARGUMENTS name. Each cell of a scenario is a test.

    powercut's own tests run in four processes, those that boot guests first.  -n 0 runs one test
    after the other.
    """
    import os
    import subprocess

    # A process of its own: pytest cannot rewrite the assertions of a plugin's package that
    # is imported already, says so, and warnings are errors here.
    folder = Path.cwd() if INSTALLED else ROOT
    if INSTALLED:
        arguments = [*arguments, *_collected(arguments, folder)]
    if not INSTALLED and os.cpu_count() != 1 and not _chooses(arguments):
        arguments = [*WORKERS, *arguments]
    if not os.access(folder, os.W_OK):  # another user's, or read-only
        arguments = [f"--override-ini=cache_dir={BUILD / 'pytest'}", *arguments]
    status = subprocess.call([sys.executable, "-m", "pytest", *arguments], cwd=folder)
    # pytest's own statuses: 0 passed, 1 failed, 2 interrupted, 3 internal, 4 usage, 5 none.
    return {0: 0, 1: 1, 2: INTERRUPTED, 4: 2}.get(status, TROUBLE)
