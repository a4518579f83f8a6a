# SPDX-License-Identifier: Apache-2.0
"""Explains one result in the terminal: what was acked, what came back, what happened when."""

from __future__ import annotations

import difflib

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from powercut.model.errors import DamagedRecording, UsageError
from powercut.model.observation import Observation
from powercut.model.verdict import Verdict
from powercut.paths import as_word, command
from powercut.recording.view import view_of
from powercut.report import words
from powercut.report.difference import difference_lines
from powercut.report.explained import explain
from powercut.report.program_cut import stories_of_trial
from powercut.report.terminal.program import print_facts, print_told
from powercut.report.terminal.story import last_moments
from powercut.report.terminal.table import print_run
from powercut.report.terminal.witness import print_witness
from powercut.report.words import STYLES
from powercut.store.layout import ResultDir
from powercut.store.results import CellResult, RunResult
from powercut.store.trial_dir import TrialDir
from powercut.store.trial_result import TrialResult
from powercut.store.view import RecordingView
from powercut.store.witness import read_witness
from powercut.wal.layout import SlotState

SHOWN_EXTENTS = 12
"""How many extents of the log that came back are listed."""


def print_story(
    console: Console, result: ResultDir, *, cell: str | None, trial: int | None
) -> None:
    """Prints the table of a run, then the story of each cell that is not SAFE.

    With `cell`, only the story of that one, SAFE or not; with `trial`, of that trial instead
    of its worst.  Raises UsageError if there is no such thing.
    """
    if not result.ended:
        raise UsageError(
            unfinished(result),
            hint=f"{command()} run --resume {as_word(result.path)} resumes it",
        )
    run = result.read_verdict()
    if cell is None:
        print_run(console, run)
        stories = run.files is None  # else the cause is told already
        chosen = [one for one in run.cells if stories and one.verdict is not Verdict.SAFE]
    else:
        chosen = [_cell(run, cell)]
    for one in chosen:
        told = one.worst_trial if trial is None else _trial(one, trial)
        console.print()
        _print_cell(console, one)
        if told is not None:
            _print_trial(console, result, told, words.unit_of(one.parameters))
        console.print(f"  again: {escape(one.reproduce)}", soft_wrap=True, highlight=False)


def unfinished(result: ResultDir) -> str:
    """What is there of a run that was interrupted, or that is still running."""
    sealed = sum(trial.sealed for trial in result.trials())
    done = words.count(sealed, "power cut")
    return f"{result.path}: this run has not come to its end; recorded so far: {done}"


def _cell(run: RunResult, name: str) -> CellResult:
    names = [cell.cell for cell in run.cells]
    if name not in names:
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.3)
        raise UsageError(
            f"there is no cell {name!r}" + (f"; did you mean {', '.join(near)}?" if near else ""),
            hint=f"the run has {words.count(len(names), 'cell')}; `show` without --cell lists them",
        )
    return run.cells[names.index(name)]


def _trial(cell: CellResult, number: int) -> TrialResult:
    for trial in cell.trials:
        if trial.trial == number:
            return trial
    raise UsageError(f"cell {cell.cell} has no trial {number}; it has {len(cell.trials)}")


def _print_cell(console: Console, cell: CellResult) -> None:
    console.rule(Text(cell.cell, "bold"), align="left")
    verdict = Text(f"{words.mark(cell.verdict)} {cell.verdict.name}", STYLES[cell.verdict])
    expected = "as expected" if cell.as_expected else f"expected {cell.expected.value.upper()}"
    console.print(Text.assemble(verdict, f" ({expected})  ", cell.description))
    text = explain(cell)
    if text:
        console.print(escape(text))
    for sentence in (
        *words.how_repaired([cell]),
        *words.how_early([cell]),
        *words.how_sure([cell]),
        *words.how_layered([cell]),
    ):
        console.print(escape(sentence), highlight=False)
    interrupted = words.interrupted(cell.trials) if len(cell.trials) > 1 else ""
    if interrupted:
        console.print(escape(interrupted), highlight=False)
    for control in cell.controls:
        sign = "as it must be" if control.behaved else "AND IT MUST NOT BE"
        console.print(
            f"  control {control.name}: {escape(control.message)}, {sign}",
            highlight=False,
        )


def _print_trial(console: Console, result: ResultDir, trial: TrialResult, unit: words.Unit) -> None:
    console.print(
        f"\nTrial {trial.trial} (seed {trial.seed}), cut {trial.trigger}: "
        f"{words.count(trial.commits_acked, unit.noun)} acknowledged, "
        f"{trial.commits_lost:,} of them lost.",
        highlight=False,
    )
    if trial.in_flight is not None:
        survived = words.survived(trial.in_flight)
        console.print(
            f"In flight at the cut: {words.in_flight(trial.in_flight)}"
            f"{f'; {survived}' if survived else ''}.",
            highlight=False,
        )
    if trial.latency is not None:
        console.print(
            f"A commit took {trial.latency.p50_us / 1000:.2g} ms (median), "
            f"{trial.latency.p99_us / 1000:.2g} ms (99 %), "
            f"{trial.latency.max_us / 1000:.2g} ms (slowest).",
            highlight=False,
        )
    if trial.reached is not None:
        console.print(f"Reached: {trial.reached.words}.", highlight=False)
    if trial.positive is not None and trial.positive.passed:
        console.print(f"The check found {trial.positive.told}.", highlight=False)
    for one in trial.injected:
        console.print(f"Injected error: {escape(one)}.", highlight=False)
    for one in trial.untested:
        console.print(f"Not tested: {escape(one)}.", highlight=False)
    for finding in trial.findings:
        # A program's findings name their operations themselves.
        named = finding.lsns and unit is words.RECORDS
        place = f" ({unit.place(words.ranges(finding.lsns))})" if named else ""
        console.print(f"  {finding.kind.value}: {escape(finding.message)}{place}", highlight=False)
    if not trial.result_directory:
        return
    directory = result.at(trial.result_directory)
    view = view_of(directory)
    for problem in view.problems:
        console.print(f"  not readable: {escape(problem)}", style="yellow", highlight=False)
    if view.operations is not None:
        _print_check(console, view)
        print_told(console, stories_of_trial(directory, trial))
    elif view.observation is not None:
        _print_observation(console, view.observation)
    _print_moments(console, view)
    witness = read_witness(directory.path)
    if witness is not None:
        console.print()
        print_witness(console, witness, directory.path)
    _print_seal(console, directory)


def _print_check(console: Console, view: RecordingView) -> None:
    seen = view.observation
    if seen is not None and not seen.recovered:
        console.print("\nAfter the cut the store did not come back:")
    elif view.difference is not None:
        console.print("\nWhat the program's check found after the cut:")
        print_facts(console, difference_lines(view.difference))
    if seen is not None and seen.failure:
        console.print(f"  {escape(seen.failure)}", style="red", highlight=False)


def _print_observation(console: Console, observation: Observation) -> None:
    console.print("\nWhat came back, by slot of the log:")
    if observation.failure:
        console.print(f"  {escape(observation.failure)}", style="red")
    if not observation.extents:
        console.print("  nothing")
        return
    table = Table(box=None, pad_edge=True, show_header=True, header_style="dim")
    for name in ("slots", "state", "LSN"):
        table.add_column(name)
    for extent in observation.extents[:SHOWN_EXTENTS]:
        slots = _span(extent.slot, extent.count)
        lsns = _span(extent.lsn, extent.count) if extent.lsn else ""
        style = "" if extent.state in (SlotState.INTACT, SlotState.ABSENT) else "red"
        table.add_row(slots, Text(extent.state.name.lower(), style), lsns)
    console.print(table)
    left = len(observation.extents) - SHOWN_EXTENTS
    if left > 0:
        console.print(f"  and {words.count(left, 'more extent')} in observation.json")


def _span(first: int, count: int) -> str:
    return str(first) if count == 1 else f"{first}-{first + count - 1}"


def _print_moments(console: Console, view: RecordingView) -> None:
    moments = last_moments(view)
    if not moments:
        return
    since = "it was ready" if view.operations is not None else "the first attempt"
    console.print(f"\nThe last moments (ms since {since}):")
    for moment in moments:
        at_ms = (moment.at - view.start_ns) / 1e6
        console.print(f"{at_ms:12.3f}  {escape(moment.text)}", soft_wrap=True, highlight=False)


def _print_seal(console: Console, directory: TrialDir) -> None:
    try:
        names = directory.check_seal()
    except DamagedRecording as error:
        console.print(f"\nThe recording is damaged: {escape(str(error))}", style="bold red")
        return
    console.print(
        f"\nThe recording is as it was sealed: {words.count(len(names), 'file')} in "
        f"{escape(str(directory.path))}",
        soft_wrap=True,
        highlight=False,
    )
