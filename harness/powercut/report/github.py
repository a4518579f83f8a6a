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
from powercut.store.results import RunResult

_MESSAGE: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY: Final = _MESSAGE | str.maketrans({":": "%3A", ",": "%2C"})
_CELL: Final = str.maketrans({"|": "\\|", "\n": " ", "\r": " ", "<": "&lt;", "`": "'"})


def _rows(run: RunResult) -> Iterator[tuple[str, Verdict, str, str, str]]:
    """Cells, and captured files as far as they count: name, verdict, numbers, what it should have
    been (empty if all is well), and why."""
    for cell in run.cells:
        states = "" if cell.states is None else f"{cell.states.states:,}"
        numbers = f"{cell.commits_acked:,} | {cell.commits_lost:,} | {states}"
        against = f"{cell.verdict.name}, expected {cell.expected.value.upper()}"
        why = printable(explain(cell) or "nothing was lost")
        yield cell.cell, cell.verdict, numbers, "" if cell.as_expected else against, why
    for name, verdict, why in () if run.files is None else run.files.counted_rows:
        against = "" if verdict is Verdict.SAFE else verdict.name
        yield name, verdict, " | | ", against, printable(why)


def workflow_commands(runs: Sequence[RunResult]) -> Iterator[str]:
    """An error for each verdict that was not expected, a warning for each that is not known."""
    for run in runs:
        for name, verdict, _, against, why in _rows(run):
            if verdict is Verdict.INCONCLUSIVE:
                yield _command("warning", run, f"{name}: INCONCLUSIVE", why)
            elif against:
                yield _command("error", run, f"{name}: {against}", why)
        if run.files is not None and run.files.reason:
            yield _command("warning", run, "captured files", printable(run.files.reason))


def summary(runs: Sequence[RunResult]) -> str:
    """A table for each run, in GitHub's Markdown."""
    return "\n".join(line for run in runs for line in _table(run)) + "\n"


def _table(run: RunResult) -> Iterator[str]:
    word = "as expected" if run.as_expected else "not as expected"
    yield f"### {run.scenario.translate(_CELL)}: {word}"
    yield ""
    yield "| cell | acknowledged | lost | states | verdict | |"
    yield "| --- | ---: | ---: | ---: | --- | --- |"
    for name, verdict, numbers, against, why in _rows(run):
        said = f"{words.mark(verdict)} {verdict.name}"
        told = f"{against}. {why}" if against else ""
        yield f"| {name.translate(_CELL)} | {numbers} | {said} | {told.translate(_CELL)} |"
    yield ""
    yield f"`{run.reproduce.translate(_CELL)}`"
    yield ""


def _command(kind: str, run: RunResult, title: str, message: str) -> str:
    properties = {"title": f"{run.scenario} {title}"}
    if run.scenario_file and run.files is None:  # of one that was tried there is none
        properties = {"file": run.scenario_file, **properties}
    told = ",".join(f"{key}={value.translate(_PROPERTY)}" for key, value in properties.items())
    return f"::{kind} {told}::{message.translate(_MESSAGE)}"
