# SPDX-License-Identifier: Apache-2.0
"""What GitHub Actions shows of runs: annotations, and a summary of the step.

Annotations are workflow commands, lines on stdout.  Names and causes may be a stranger's, so
whatever could end a command and begin another is escaped, as @actions/core does it: % \\r \\n of a
message, and : , of a property as well.  (GitHub Docs: "Workflow commands for GitHub Actions",
"Setting an error message", "Adding a job summary".)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from powercut.model.printable import printable
from powercut.model.verdict import Verdict
from powercut.report import words
from powercut.report.explained import explain
from powercut.store.results import CellResult, RunResult

_MESSAGE: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY: Final = _MESSAGE | str.maketrans({":": "%3A", ",": "%2C"})
_CELL: Final = str.maketrans({"|": "\\|", "\n": " ", "\r": " ", "<": "&lt;", "`": "'"})


def workflow_commands(runs: Sequence[RunResult]) -> Iterator[str]:
    """An error for each verdict that was not expected, a warning for each that is not known."""
    for run in runs:
        for cell in run.cells:
            if cell.verdict is Verdict.INCONCLUSIVE:
                yield _command("warning", run, f"{cell.cell}: INCONCLUSIVE", _why(cell))
            elif not cell.as_expected:
                title = f"{cell.cell}: {_against(cell)}"
                yield _command("error", run, title, _why(cell))


def summary(runs: Sequence[RunResult]) -> str:
    """A table for each run, in GitHub's Markdown."""
    return "\n".join(line for run in runs for line in _table(run)) + "\n"


def _table(run: RunResult) -> Iterator[str]:
    word = "as expected" if run.as_expected else "not as expected"
    yield f"### {run.scenario.translate(_CELL)}: {word}"
    yield ""
    yield "| cell | acknowledged | lost | states | verdict | |"
    yield "| --- | ---: | ---: | ---: | --- | --- |"
    for cell in run.cells:
        states = "" if cell.states is None else f"{cell.states.states:,}"
        said = f"{words.mark(cell.verdict)} {cell.verdict.name}"
        why = "" if cell.as_expected else f"{_against(cell)}. {_why(cell)}"
        numbers = f"{cell.commits_acked:,} | {cell.commits_lost:,} | {states}"
        yield f"| {cell.cell.translate(_CELL)} | {numbers} | {said} | {why.translate(_CELL)} |"
    yield ""
    yield f"`{run.reproduce.translate(_CELL)}`"
    yield ""


def _against(cell: CellResult) -> str:
    return f"{cell.verdict.name}, expected {cell.expected.value.upper()}"


def _why(cell: CellResult) -> str:
    return printable(explain(cell) or "nothing was lost")


def _command(kind: str, run: RunResult, title: str, message: str) -> str:
    properties = {"title": f"{run.scenario} {title}"}
    if run.scenario_file:
        properties = {"file": run.scenario_file, **properties}
    told = ",".join(f"{key}={value.translate(_PROPERTY)}" for key, value in properties.items())
    return f"::{kind} {told}::{message.translate(_MESSAGE)}"
