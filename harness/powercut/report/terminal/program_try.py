# SPDX-License-Identifier: Apache-2.0
"""What `powercut try` found, for a person: the answer, one cause, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from powercut.model.verdict import LsnRange, Verdict, lsn_ranges
from powercut.paths import as_word, command, from_here
from powercut.report import words
from powercut.report.program_cut import stories_of_trial
from powercut.report.terminal.program import print_facts
from powercut.report.terminal.table import STYLES
from powercut.scenario.program_text import title_of
from powercut.store.folder import REPORT, CaptureResult
from powercut.store.layout import ResultDir
from powercut.store.program_tried import FilesTried, ProgramTried
from powercut.store.results import CellResult, RunResult

_INDENT = 4
_EVERYWHERE = "files, by POSIX alone"
_JOURNAL = "files, names in order"


def print_tried(console: Console, tried: ProgramTried, program: Sequence[str]) -> None:
    """The verdict and what it holds for, the cause of a loss, a row for each promise."""
    (cell,) = tried.disk.cells
    style = STYLES[tried.verdict]
    mark = words.mark(tried.verdict)
    console.print(
        Text.assemble((f"{mark} {tried.verdict.name}  ", f"{style} bold"), title_of(program)),
        highlight=False,
    )
    for line in _answer(tried, cell):
        console.print(Padding(Text(line), (0, 0, 0, _INDENT), expand=False), highlight=False)
    console.print()
    console.print(_table(tried, cell), highlight=False)
    console.print()
    print_facts(console, [("reached", text) for text in _reached(tried, cell)])
    print_facts(console, [("odds", text) for text in _odds(tried, cell)])
    untested = [one for trial in cell.trials for one in trial.untested]
    untested += tried.files.journal.untested if tried.files.journal else ()
    print_facts(console, [("not tested", one) for one in dict.fromkeys(untested)])
    unknown = dict.fromkeys(_unknown(tried, cell))
    print_facts(console, [("not known", reason) for reason in unknown])
    print_facts(console, list(_ways_on(tried.disk, tried.files)), whole=True)


def _answer(tried: ProgramTried, cell: CellResult) -> Iterator[str]:
    """What one may rely on, and why not on more."""
    where = _where(cell)
    posix = tried.files.posix
    match tried.verdict:
        case Verdict.LOSSY:
            yield _cause(tried, cell)
            yield from _alone(tried, cell)
        case Verdict.SAFE:
            wider = ", nor where names keep their order" if tried.files.journal else ""
            yield f"No acknowledged operation is lost on {where}{wider}."
            if tried.beyond:
                cause = tried.files.cause or "the report of the files has it."
                yield f"POSIX alone allows a loss: {cause}"
            elif posix is not None and posix.verdict is Verdict.SAFE:
                yield "Nor by what POSIX alone promises."
        case _:
            yield "Nothing was proved: see below."


def _alone(tried: ProgramTried, cell: CellResult) -> Iterator[str]:
    """Why the disk and the files may disagree."""
    where = _where(cell)
    states = sum(trial.states.states for trial in cell.trials if trial.states is not None)
    if tried.alone == "files":
        yield (
            f"The disk lost nothing in {states:,} states: {where} had written more than the "
            "program had synced, which no file system promises, or none of these lacked it."
        )
    elif tried.alone == "disk":
        yield (
            f"The files lost nothing: {where} keeps less of names and sizes than a journalling "
            "file system, or the program went another way on the disk."
        )


def _where(cell: CellResult) -> str:
    settings = cell.parameters.filesystem
    mounted = f" ({','.join(settings.mount)})" if settings.mount else ""
    return f"{settings.type.value}{mounted}"


def _cause(tried: ProgramTried, cell: CellResult) -> str:
    """One sentence: that of the files if they lose it, since it names what was not synced."""
    if tried.by_files:
        return tried.files.cause
    run = ResultDir(Path(tried.disk.result_directory))
    for trial in cell.trials:
        for story in stories_of_trial(run.at(trial.result_directory), trial):
            return ". ".join([story.message[:1].upper() + story.message[1:], *story.sentences[:2]])
    return "An acknowledged operation is lost."


def _table(tried: ProgramTried, cell: CellResult) -> Table:
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
    for name, result in ((_JOURNAL, tried.files.journal), (_EVERYWHERE, tried.files.posix)):
        if result is not None:
            lost = _lost(result)
            table.add_row(
                name,
                f"{result.acknowledged:,}",
                words.ranges(lost) if lost else "none",
                f"{result.explored.coverage.distinct:,}",
                f"{result.explored.coverage.lossy:,}",
                _said(result.verdict),
            )
    return table


def _lost(result: CaptureResult) -> tuple[LsnRange, ...]:
    lossy = [one for one in result.explored.findings if one.verdict is Verdict.LOSSY]
    return lsn_ranges(number for one in lossy for span in one.lsns for number in span)


def _said(verdict: Verdict) -> Text:
    return Text(f"{words.mark(verdict)} {verdict.name}", STYLES[verdict])


def _reached(tried: ProgramTried, cell: CellResult) -> Iterator[str]:
    """How far each run came: of both, as one may have met what the other has not."""
    for trial in cell.trials:
        if trial.reached is not None:
            yield f"on the disk {trial.reached.words}"
    if tried.files.journal is not None:
        yield f"as files {tried.files.journal.reached.words}"


def _odds(tried: ProgramTried, cell: CellResult) -> Iterator[str]:
    """Of a verdict without a loss: what a seldom fault would have had to come through."""
    if tried.verdict is Verdict.SAFE:
        for trial in cell.trials:
            if trial.states is not None and trial.states.at_acks is not None:
                yield words.odds(trial.states.at_acks)


def _unknown(tried: ProgramTried, cell: CellResult) -> Iterator[str]:
    yield from cell.reasons
    if tried.files.reason:
        tried_at_all = tried.files.journal is not None
        what = (
            "not all is known of the captured files"
            if tried_at_all
            else ("captured files were not tried")
        )
        yield f"{what}: {tried.files.reason}"
    for result in (tried.files.journal, tried.files.posix):
        if result is not None:
            yield from result.reasons
            yield from (
                one.examples[0].message
                for one in result.explored.findings
                if one.verdict is Verdict.INCONCLUSIVE and result.verdict is Verdict.INCONCLUSIVE
            )


def _ways_on(disk: RunResult, files: FilesTried) -> Iterator[tuple[str, str]]:
    powercut, here = command(), as_word(Path(disk.result_directory))
    yield "the disk", f"{powercut} show {here}"
    if files.directory is not None:
        folder = as_word(files.directory.path)
        yield "the files", f"{from_here(files.directory.path) / REPORT}"
        if files.cause:
            yield "the witness", f"{powercut} minimize {folder}"
        yield "judge again", f"{powercut} verify {here}; {powercut} verify {folder}"
    else:
        yield "judge again", f"{powercut} verify {here}"
