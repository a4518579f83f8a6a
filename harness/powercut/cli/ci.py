# SPDX-License-Identifier: Apache-2.0
"""What a CI gets of runs: JUnit XML where it is wanted, and what GitHub Actions shows by itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from powercut.cli.options import OUTPUT

if TYPE_CHECKING:
    from powercut.store.results import RunResult

Command = Callable[..., Any]


def junit_option(command: Command) -> Command:
    """Decorator: `--junit FILE`; the argument is `junit_file`."""
    return click.option(
        "--junit",
        "junit_file",
        type=OUTPUT,
        help="Write JUnit XML here, a test case for each cell; - for stdout.",
    )(command)


def tell_ci(runs: Sequence[RunResult], junit_file: Path | None, *, quiet: bool = False) -> None:
    """Writes `junit_file`, and under GitHub Actions annotations and the summary of the step.

    `quiet` says that stdout is another's: then there are no annotations.  Raises HostError.
    """
    from powercut.report.junit import junit_of
    from powercut.store.files import host_errors, write_output

    if junit_file == Path("-"):
        click.echo(junit_of(runs), nl=False)
    elif junit_file is not None:
        write_output(junit_file, junit_of(runs))
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    from powercut.report.github import summary, workflow_commands

    if not quiet and junit_file != Path("-"):
        for line in workflow_commands(runs):
            click.echo(line)
    if target := os.environ.get("GITHUB_STEP_SUMMARY"):
        with host_errors(Path(target)), Path(target).open("a", encoding="utf-8") as file:
            file.write(summary(runs))
