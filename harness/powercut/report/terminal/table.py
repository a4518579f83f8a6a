# SPDX-License-Identifier: Apache-2.0
"""The result of a run as a table in the terminal."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from powercut.model.verdict import EvidenceLevel, Verdict
from powercut.paths import as_word, command
from powercut.report import words
from powercut.report.explained import explain
from powercut.report.words import STYLES
from powercut.scenario.plan import Cell, Plan
from powercut.scenario.settings import ControlKind
from powercut.store.results import CellResult, ControlResult, RunResult

SUMMARISED_CELLS = 40
"""With more cells than this, those that are SAFE as expected are counted, not listed."""


def print_run(console: Console, run: RunResult) -> None:
    """Prints what came out of `run`, and where to read more."""
    if run.files is not None:
        # Its losses are told from the recording, which no other run has to load.
        from powercut.report.terminal.program_try import print_tried  # noqa: PLC0415

        print_tried(console, run, run.files)
        return
    console.print()
    listed = _listed(run)
    if listed:
        console.print(_table(listed))
    hidden = len(run.cells) - len(listed)
    if hidden:
        console.print(f"and {words.count(hidden, 'cell')} that are SAFE, as expected")
    for cell in listed:
        text = explain(cell)
        if text:
            console.print(Text.assemble((cell.cell, "bold"), ": ", text))
    states = [words.how_recovered(run.cells), words.how_far(run.cells)]
    states += words.how_repaired(run.cells)
    early, sure = words.how_early(run.cells), words.how_sure(run.cells)
    for sentence in filter(None, (*states, *early, *sure)):
        console.print(Text(sentence, "dim"))
    interrupted = words.interrupted([trial for cell in run.cells for trial in cell.trials])
    if interrupted:
        console.print(Text(interrupted, "dim"))
    console.print(_controls(run))
    if busy := words.busy(run.load):
        console.print(Text(busy, "yellow"))
    console.print(_bottom_line(run))
    console.print()
    # One unbroken line each: they are there to be copied.
    for name, value in (
        ("result", run.result_directory),
        # A result that is a file, such as a bundle, has no report beside it.
        (
            "report",
            "" if Path(run.result_directory).is_file() else f"{run.result_directory}/report.html",
        ),
        ("again", run.reproduce),
    ):
        if value:
            console.print(f"{name:>7}: {escape(value)}", soft_wrap=True, highlight=False)


def _listed(run: RunResult) -> list[CellResult]:
    if len(run.cells) <= SUMMARISED_CELLS:
        return list(run.cells)
    return [c for c in run.cells if not (c.as_expected and c.verdict is Verdict.SAFE)]


def _table(cells: list[CellResult]) -> Table:
    many = any(len(cell.trials) > 1 for cell in cells)
    # With a column more it would else not fit 80 of a terminal's, and break names.
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=many)
    table.add_column("cell", overflow="fold")
    if many:
        table.add_column("cuts", justify="right")
    table.add_column("commits\nacked", justify="right", min_width=7)
    table.add_column("of these\nlost", justify="right", no_wrap=True)
    records = words.any_records(cells)
    if records:
        table.add_column("bytes\ntoo early", justify="right", no_wrap=True)
    table.add_column("states\nrecovered", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("expected", min_width=8)
    for cell in cells:
        unit = words.unit_of(cell.parameters)
        row: list[str | Text] = [escape(cell.cell)]
        if many:
            row.append(f"{len(cell.trials):,}")
        row += [
            f"{cell.commits_acked:,}",
            _stacked(f"{cell.commits_lost:,}", words.lost_place(cell, unit)),
        ]
        if records:
            row.append(_exposure(cell))
        row += [_states(cell), _verdict(cell), expectation(cell)]
        table.add_row(*row)
    return table


def _verdict(cell: CellResult) -> Text:
    """The verdict, and beside it what it rests on, if that is less than usual."""
    said = f"{words.mark(cell.verdict)} {cell.verdict.name}"
    if cell.evidence_level is EvidenceLevel.RECORDED:
        return Text(said, STYLES[cell.verdict])
    return Text.assemble((said, STYLES[cell.verdict]), ("\nlive only", "dim"))


def _stacked(number: str, remark: str) -> Text:
    """Two lines, so that the table fits a terminal of 80 columns."""
    return Text.assemble(number, (f"\n{remark}", "dim")) if remark else Text(number)


def _exposure(cell: CellResult) -> Text:
    exposure = cell.exposure
    if cell.evidence_level is EvidenceLevel.LIVE_ONLY:
        return Text("not seen")
    if exposure is None or not exposure.records:
        return Text(words.exposed(exposure))
    return _stacked(f"{exposure.records:,}", words.how_long(exposure, signs=True))


def _states(cell: CellResult) -> Text:
    if cell.evidence_level is EvidenceLevel.LIVE_ONLY:
        return Text("not seen")
    if cell.states is None:
        return Text("none")
    return _stacked(f"{cell.states.states:,}", words.of_legal(cell.states))


def expectation(cell: CellResult) -> str:
    """Whether the verdict is the one that was expected."""
    if cell.as_expected:
        return "yes"
    return f"no: {cell.expected.value.upper()}"


def _controls(run: RunResult) -> Text:
    controls = {(c.kind, c.result_directory): c for cell in run.cells for c in cell.controls}
    if not controls:
        return Text("No controls were run. A LOSSY verdict needs none.", "yellow")
    wrong = [control for control in controls.values() if not control.behaved]
    if not wrong:
        number = len(controls)
        which = "The control" if number == 1 else f"All {number} controls"
        return Text(f"{which} behaved as expected.", "dim")
    lossy = {
        (c.kind, c.result_directory)
        for cell in run.cells
        if cell.verdict is Verdict.LOSSY
        for c in cell.controls
    }
    lines = [_wrong_control(c, lossy=(c.kind, c.result_directory) in lossy) for c in wrong]
    return Text("\n".join(lines), "bold red")


def _wrong_control(control: ControlResult, *, lossy: bool) -> str:
    """A cell that loses on an honest disk as well is at fault itself, not its control."""
    if lossy and control.kind is ControlKind.HONEST and control.verdict is Verdict.LOSSY:
        return (
            "On an honest disk it loses as well: the fault lies above the disk, in the workload, "
            f"its file system or the hypervisor ({control.message})"
        )
    return f"Control {control.name} misbehaved: {control.message}"


def _bottom_line(run: RunResult) -> Text:
    cuts = sum(len(cell.trials) for cell in run.cells)
    spent = f"{words.count(cuts, 'power cut')} in {run.seconds:.1f} s, seed {run.seed}"
    if run.as_expected:
        return Text(f"All as expected. {spent}.", "bold green")
    wrong = [c for c in run.cells if not c.as_expected and c.verdict is not Verdict.INCONCLUSIVE]
    unknown = [c for c in run.cells if c.verdict is Verdict.INCONCLUSIVE]
    parts = []
    if wrong:
        parts.append(f"{words.count(len(wrong), 'cell')} not as expected")
    if unknown:
        parts.append(f"{words.count(len(unknown), 'cell')} inconclusive")
    return Text(f"{', '.join(parts)}. {spent}.", "bold red" if wrong else "bold yellow")


# What a run would do, for a person to read before it does.

SHOWN_TRIALS = 5
"""How many trials of a cell are listed."""


def print_plan(
    console: Console, plan: Plan, runs: int, describe: Callable[[Cell], Sequence[str]] | None
) -> None:
    """Prints `plan`, which takes so many `runs` with its controls.

    `describe` gives the command line of a cell's machine; None for none.
    """

    def line(text: str) -> None:
        console.print(text, soft_wrap=True, highlight=False)

    line(
        f"[bold]{escape(plan.scenario)}[/]: {words.count(len(plan.cells), 'cell')}, "
        f"{words.count(plan.trials, 'power cut')} and {runs - plan.trials:,} for controls, "
        f"seed {plan.seed}"
    )
    if plan.description:
        line(escape(plan.description))
    for cell in plan.cells:
        line(f"\n[bold]{escape(cell.name)}[/]  expected {cell.expect.value.upper()}")
        for key, value in cell.overrides:
            if key == "expect":
                continue
            line(f"  {escape(f'{key}: {value}')}")
        for trial in cell.trials[:SHOWN_TRIALS]:
            line(f"  trial {trial.number}: seed {trial.seed}, cut {trial.trigger}")
        left = len(cell.trials) - SHOWN_TRIALS
        if left > 0:
            line(f"  and {words.count(left, 'more trial')}")
        if describe is not None:
            line(f"  machine: {escape(shlex.join(describe(cell)))}")
    line("")


# Why a cell failed, as plain text for a test's log.


def failure_text(run: RunResult, cell: CellResult) -> str:
    """What was acknowledged, what came back, and the command that repeats it."""
    lines = [
        f"{run.scenario}, cell {cell.cell}: {cell.verdict.name}, "
        f"expected {cell.expected.value.upper()}"
    ]
    explanation = explain(cell)
    if explanation:
        lines.append(explanation)
    worst, unit = cell.worst_trial, words.unit_of(cell.parameters)
    if worst is not None:
        lines += [
            f"cut         {worst.trigger} (trial {worst.trial} of {len(cell.trials)})",
            f"attempted   {unit.first(worst.commits_attempted)}",
            f"acked       {unit.first(worst.commits_acked)}",
            f"lost        {words.lost(worst, unit)}",
            f"exposed     {words.exposed(worst.exposure)}",
        ]
        lines += [f"{finding.kind.value:<11} {finding.message}" for finding in worst.findings]
    lines += [
        f"control     {control.name}: {control.message}"
        for control in cell.controls
        if not control.behaved
    ]
    lines += [
        f"again       {cell.reproduce}",
        f"explain     {command()} show {as_word(Path(run.result_directory))} --cell '{cell.cell}'",
    ]
    return "\n".join(lines)
