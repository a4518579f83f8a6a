# SPDX-License-Identifier: Apache-2.0
"""What came of a program under test, for a person in a terminal.

The verdict first, then what it rests on, then what was lost, and how to look at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from powercut.model.verdict import Verdict
from powercut.paths import as_word, command, from_here
from powercut.report import words
from powercut.report.program_cut import FindingStory, told_of
from powercut.report.words import STYLES
from powercut.scenario.program_text import title_of
from powercut.scenario.settings import ControlKind, ProgramSettings
from powercut.store.layout import ResultDir
from powercut.store.results import CellResult, RunResult

_NAME_WIDTH: Final = 13
_INDENT: Final = 4


def print_program_run(console: Console, run: RunResult) -> None:
    """The run of a scenario with one cell, which is a program that was cut once."""
    (cell,) = run.cells
    folder = Path(run.result_directory)
    settings = cell.parameters.workload
    assert isinstance(settings, ProgramSettings)
    print_title(console, cell.verdict, settings.command, cell.parameters.filesystem.type.value)
    told = [told_of(ResultDir(folder).at(one.result_directory), one) for one in cell.trials]
    facts = [fact for trial_facts, _ in told for fact in trial_facts]
    print_facts(console, [*facts, *_vouching(cell)])
    print_facts(console, [("not known", reason) for reason in cell.reasons])
    for _, stories in told:
        print_told(console, stories)
    console.print()
    here, powercut = from_here(folder), command()
    ends = [
        ("scenario", f"{here / 'scenario.yaml'}, to be edited and run again"),
        ("report", f"{here / 'report.html'}"),
        ("more states", f"{powercut} explore {as_word(folder)}"),
        ("judge again", f"{powercut} verify {as_word(folder)}"),
        ("run again", run.reproduce),
    ]
    print_facts(console, ends, whole=True)


def print_title(
    console: Console, verdict: Verdict, program: Sequence[str], filesystem: str
) -> None:
    """The verdict, and on what."""
    console.print(f"[{STYLES[verdict]} bold]{words.mark(verdict)} {verdict.name}[/]  ", end="")
    console.print(f"{title_of(program)} on {filesystem}", markup=False, highlight=False)


def print_facts(console: Console, facts: Iterable[tuple[str, str]], *, whole: bool = False) -> None:
    """A line each: its name, and what there is to say; those to be copied are not wrapped."""
    if whole:
        for name, text in facts:
            line = f"{name:>{_NAME_WIDTH}}: {text}"
            console.print(line, soft_wrap=True, markup=False, highlight=False)
        return
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", width=_NAME_WIDTH + 1, no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in facts:
        grid.add_row(Text(f"{name}:"), Text(text))
    if grid.row_count:
        console.print(grid, highlight=False)


def print_told(console: Console, found: Iterable[FindingStory]) -> None:
    """What was found, each with its sentences below it."""
    for one in found:
        console.print(Text.assemble("\n", (one.kind, STYLES[one.verdict]), f": {one.message}"))
        print_sentences(console, one)


def print_sentences(console: Console, story: FindingStory) -> None:
    """What is told, and what to type to look on: a line each that can be copied."""
    for sentence in story.sentences:
        console.print(Padding(Text(sentence), (0, 0, 0, _INDENT), expand=False), highlight=False)
    for purpose, text in story.commands:
        line = f"{'':{_INDENT}}{purpose}: {text}"
        console.print(line, soft_wrap=True, markup=False, highlight=False)


def disk_text(atomic_unit: int) -> str:
    """The disk under test of an honest run."""
    return f"honest, volatile cache, atomic unit {atomic_unit} bytes"


def _vouching(cell: CellResult) -> Iterator[tuple[str, str]]:
    for control in cell.controls:
        expected = control.expected.value.upper()
        must = "as it must be" if control.behaved else f"and it should be {expected}"
        what = control.name
        if control.kind is ControlKind.LYING_DISK:
            what = "on a disk that ignores flushes"
            if control.disk is not None:
                what = f"with disk {control.disk} alone ignoring flushes"
        yield "control", f"{what}: {control.verdict.name}, {must}"
    yield "the disk", disk_text(cell.parameters.disk.atomic_unit)
