# SPDX-License-Identifier: Apache-2.0
"""What `powercut try` found, for a person: the answer, one cause, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from powercut.model.verdict import Verdict
from powercut.paths import as_word, command, from_here
from powercut.report import words
from powercut.report.program_cut import stories_of_trial
from powercut.report.terminal.program import print_facts
from powercut.report.words import STYLES
from powercut.scenario.program_text import title_of
from powercut.scenario.settings import ProgramSettings
from powercut.store.files_tried import FilesTried
from powercut.store.folder import REPORT
from powercut.store.layout import ResultDir
from powercut.store.results import CellResult, RunResult

_INDENT = 4


def print_tried(console: Console, run: RunResult, files: FilesTried) -> None:
    """The verdict and what it holds for, the cause of a loss, a row for each promise."""
    (cell,) = run.cells
    program = cell.parameters.workload
    assert isinstance(program, ProgramSettings)
    style = STYLES[run.verdict]
    mark = words.mark(run.verdict)
    console.print(
        Text.assemble((f"{mark} {run.verdict.name}  ", f"{style} bold"), title_of(program.command)),
        highlight=False,
    )
    for line in answer_lines(run, files):
        console.print(Padding(Text(line), (0, 0, 0, _INDENT), expand=False), highlight=False)
    console.print()
    console.print(_table(files, cell), highlight=False)
    console.print()
    print_facts(console, [("reached", text) for text in _reached(files, cell)])
    print_facts(console, [("odds", text) for text in _odds(run.verdict, cell)])
    untested = [one for trial in cell.trials for one in trial.untested]
    untested += files.journal.untested if files.journal else ()
    print_facts(console, [("not tested", one) for one in dict.fromkeys(untested)])
    unknown = dict.fromkeys(_unknown(files, cell))
    print_facts(console, [("not known", reason) for reason in unknown])
    print_facts(console, list(_ways_on(Path(run.result_directory), files, cell)), whole=True)


def answer_lines(run: RunResult, files: FilesTried) -> Iterator[str]:
    """What one may rely on, and why not on more."""
    (cell,) = run.cells
    where, posix = _where(cell), files.posix
    match run.verdict:
        case Verdict.LOSSY:
            yield _cause(run, files, cell)
            yield from _alone(files, cell)
        case Verdict.SAFE:
            wider = ", nor where names keep their order" if files.journal else ""
            kept = _KEPT[cell.trials[0].keeps]
            yield f"{kept} on {where}{wider}."
            if posix is not None and posix.verdict is Verdict.LOSSY:
                cause = files.cause or "the report of the files has it."
                yield f"POSIX alone allows a loss: {cause}"
            elif posix is not None and posix.verdict is Verdict.SAFE:
                yield "Nor by what POSIX alone promises."
        case _:
            yield "Nothing was proved: see below."


_KEPT: Final = {
    "every": "No acknowledged operation is lost",
    "prefix": "What is lost is the end of what it acknowledged, as it promises; there is no hole",
    "opens": "It opens, as it promises, and nothing is wrong",
}


def _alone(files: FilesTried, cell: CellResult) -> Iterator[str]:
    """Why the disk and the files may disagree, under the promise of a file system that keeps names
    in order; nothing if both say the same, or one of them nothing."""
    if files.journal is None or {cell.verdict, files.journal.verdict} != {
        Verdict.SAFE,
        Verdict.LOSSY,
    }:
        return
    where = _where(cell)
    if cell.verdict is Verdict.SAFE:
        states = sum(trial.states.states for trial in cell.trials if trial.states is not None)
        yield (
            f"The disk lost nothing in {states:,} states: {where} had written more than the "
            "program had synced, which no file system promises, or none of these lacked it."
        )
    else:
        yield (
            f"The files lost nothing: {where} keeps less of names and sizes than a journalling "
            "file system, or the program went another way on the disk."
        )


def _where(cell: CellResult) -> str:
    settings = cell.parameters.filesystem
    mounted = f" ({','.join(settings.mount)})" if settings.mount else ""
    return f"{settings.type.value}{mounted}"


def _cause(run: RunResult, files: FilesTried, cell: CellResult) -> str:
    """One sentence: that of the files if they lose it, since it names what was not synced."""
    if files.loses and files.cause:
        return files.cause
    result = ResultDir(Path(run.result_directory))
    for trial in cell.trials:
        for story in stories_of_trial(result.at(trial.result_directory), trial):
            return ". ".join([story.message[:1].upper() + story.message[1:], *story.sentences[:2]])
    return "An acknowledged operation is lost."


def _table(files: FilesTried, cell: CellResult) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("where")
    for name in ("acknowledged", "lost", "states", "losing"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    states = [trial.states for trial in cell.trials if trial.states is not None]
    table.add_row(
        f"{_where(cell)} on a disk",
        f"{cell.commits_acked:,}",
        words.ranges(cell.lost_lsns) if cell.commits_lost else "none",
        f"{sum(one.states for one in states):,}",
        f"{sum(one.lossy for one in states):,}",
        _said(cell.verdict),
    )
    for name, result, _ in files.rows:
        table.add_row(
            name,
            f"{result.acknowledged:,}",
            words.ranges(result.lost) if result.lost else "none",
            f"{result.explored.coverage.distinct:,}",
            f"{result.explored.coverage.lossy:,}",
            _said(result.verdict),
        )
    return table


def _said(verdict: Verdict) -> Text:
    return Text(f"{words.mark(verdict)} {verdict.name}", STYLES[verdict])


def _reached(files: FilesTried, cell: CellResult) -> Iterator[str]:
    """How far each run came: of both, as one may have met what the other has not."""
    for trial in cell.trials:
        if trial.reached is not None:
            yield f"on the disk {trial.reached.words}"
    if files.journal is not None:
        yield f"as files {files.journal.reached.words}"


def _odds(verdict: Verdict, cell: CellResult) -> Iterator[str]:
    """Of a verdict without a loss: what a seldom fault would have had to come through."""
    if verdict is Verdict.SAFE:
        for trial in cell.trials:
            if trial.states is not None and trial.states.at_acks is not None:
                yield words.odds(trial.states.at_acks)


def _unknown(files: FilesTried, cell: CellResult) -> Iterator[str]:
    yield from cell.reasons
    if files.reason:
        known = "not all is known of the captured files" if files.recording else ""
        yield f"{known or 'captured files were not tried'}: {files.reason}"
    for _, result, _ in files.rows:
        yield from result.reasons
        yield from (
            one.examples[0].message
            for one in result.explored.findings
            if one.verdict is Verdict.INCONCLUSIVE and result.verdict is Verdict.INCONCLUSIVE
        )


def _ways_on(run: Path, files: FilesTried, cell: CellResult) -> Iterator[tuple[str, str]]:
    powercut, here = command(), as_word(run)
    yield "the report", f"{from_here(run) / REPORT}"
    yield "the disk", f"{powercut} show {here} --cell {cell.cell}"
    if files.recording:
        folder = run / files.recording
        yield "the files", f"{powercut} show {as_word(folder)}"
        if files.cause:
            yield "the witness", f"{powercut} minimize {as_word(folder)}"
    yield "judge again", f"{powercut} verify {here}"
