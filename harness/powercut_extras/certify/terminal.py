# SPDX-License-Identifier: Apache-2.0
"""Shows a certificate in the making, and its matrix once it is made, on a terminal."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import ExitStack
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.progress import TimeElapsedColumn as Elapsed
from rich.progress import TimeRemainingColumn as Remaining
from rich.table import Table
from rich.text import Text

from powercut.closing import ResourceOwner
from powercut.model.events import (
    CellMeasured,
    CertifyStarted,
    Notice,
    RunEvent,
    RunFinished,
    TrialFinished,
)
from powercut.model.verdict import Verdict
from powercut.report import words
from powercut_extras.certify.certificate import Certificate, CertifiedCell
from powercut_extras.certify.certified import about, in_brief, untested
from powercut_extras.certify.comparison import Comparison
from powercut_extras.certify.flat import flat

_LINE_EVERY_S: Final = 15.0
"""How often a line is printed where there is no terminal to draw a bar on."""

LISTED_CELLS: Final = 40
"""More cells than this are counted by axis; those that are not SAFE are listed all the same."""


class CertifyView(ResourceOwner):
    """A listener for the events of a certificate; a context manager, as it may hold the terminal.

    Trials that turn out as expected are counted; others get a line each.  Events may come
    from several threads.
    """

    def __init__(self, console: Console, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._console = console
        self._clock = clock
        self._lock = threading.Lock()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            Elapsed(),
            Remaining(),
            TextColumn("{task.fields[counts]}", style="dim"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task: TaskID | None = None
        self._total = 0
        self._done = 0
        self._made = 0
        self._verdicts: Counter[Verdict] = Counter()
        self._began = self._told = clock()

    def _open(self, stack: ExitStack) -> None:
        stack.enter_context(self._bar)

    def __call__(self, event: RunEvent) -> None:
        """Takes one event."""
        with self._lock:
            match event:
                case CertifyStarted():
                    self._start(event)
                case TrialFinished():
                    self._trial_finished(event)
                case CellMeasured():
                    self._made += not event.earlier
                    self._advance()
                    if event.trouble:
                        text = f"{event.cell} could not be measured: {event.trouble}"
                        self._console.print(escape(text), style="dim", highlight=False)
                case Notice():
                    self._console.print(escape(event.text), style="dim", highlight=False)
                case RunFinished():
                    self._tell()
                case _:
                    pass

    def _start(self, event: CertifyStarted) -> None:
        self._total = event.trials
        self._console.print(
            f"{escape(event.title)}: {words.count(event.cells, 'cell')} of "
            f"{words.count(event.scenarios, 'scenario')}, about "
            f"{words.count(event.trials, 'run')} with controls and measurements, "
            f"seed {event.seed}\ninto {escape(str(event.directory))}",
            highlight=False,
            soft_wrap=True,
        )
        self._task = self._bar.add_task(escape(event.title), total=event.trials, counts="")
        self._began = self._told = self._clock()

    def _trial_finished(self, event: TrialFinished) -> None:
        self._made += not event.earlier
        if not event.control:
            self._verdicts[event.verdict] += 1
        if not event.as_expected:
            kind = "control " if event.control else ""
            self._console.print(
                f"  [{words.STYLES[event.verdict]}]{words.mark(event.verdict)} "
                f"{event.verdict.name}[/], not as expected: {kind}{escape(event.cell)} "
                f"#{event.trial}: {event.acked:,} acknowledged, {event.lost:,} lost",
                highlight=False,
                soft_wrap=True,
            )
        self._advance()

    def _advance(self) -> None:
        self._done += 1
        if self._task is not None:
            self._bar.update(
                self._task,
                completed=self._done,
                total=max(self._total, self._done),
                counts=self._counts(),
            )
        if not self._console.is_terminal and self._clock() - self._told >= _LINE_EVERY_S:
            self._tell()

    def _tell(self) -> None:
        """A line of progress, where there is no bar."""
        if self._console.is_terminal:
            return
        self._told = self._clock()
        spent = max(self._told - self._began, 1e-3)
        rate = self._made / spent
        left = max(self._total - self._done, 0) / rate if rate else 0.0
        self._console.print(
            f"  {self._done:,} of {max(self._total, self._done):,}, {rate:.1f} a second, "
            f"{left / 60:.0f} min left: {self._counts()}",
            highlight=False,
            soft_wrap=True,
        )

    def _counts(self) -> str:
        return ", ".join(f"{self._verdicts[v]:,} {v.name}" for v in _shown(self._verdicts))


def print_certificate(console: Console, certificate: Certificate) -> None:
    """Prints the matrix: cell by cell if it is small, else counted by axis."""
    console.print()
    expects = certificate.definition is None
    if len(certificate.cells) <= LISTED_CELLS:
        console.print(_cells_table(certificate.cells, expects=expects))
    else:
        console.print(_axes_table(certificate))
    for line in (*_not_safe(certificate.cells, expects=expects), *_left_out(certificate)):
        console.print(line, soft_wrap=True)
    for sentence in (*about(certificate), *in_brief(certificate)):
        console.print(Text(sentence))
    for group in untested(certificate):
        what = words.count(group.combinations, "combination")
        console.print(Text(f"    not tested, {what}: {group.reason}"), soft_wrap=True)
    console.print(Text(certificate.statement, "dim"))
    if busy := words.busy(certificate.load):
        console.print(Text(busy, "yellow"))
    console.print(_bottom_line(certificate))


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Prints which cells changed their verdict, and which are on one side only."""
    for name, versions in zip(comparison.names, comparison.versions, strict=True):
        console.print(f"{name}: {', '.join(versions)}", highlight=False, markup=False)
    console.print()
    for change in comparison.changed:
        line = Text()
        for verdict, arrow in ((change.before.verdict, " → "), (change.after.verdict, "  ")):
            line.append(f"{words.mark(verdict)} {verdict.name}", words.STYLES[verdict])
            line.append(arrow)
        worse = max((change.before, change.after), key=lambda cell: cell.verdict)
        line.append(f"{change.after.scenario}: {change.after.cell}\n    {worse.explanation}")
        console.print(line, soft_wrap=True)
    for name, cells in zip(comparison.names, comparison.only, strict=True):
        if cells:
            console.print(f"Only in {name}:", highlight=False, markup=False)
        for cell in cells:
            console.print(
                Text(f"    {cell.scenario}: {cell.cell}: {cell.verdict.name}"), soft_wrap=True
            )
    console.print(
        f"{words.count(comparison.same, 'cell')} with the same verdict, "
        f"{len(comparison.changed)} with another, "
        f"{len(comparison.only[0]) + len(comparison.only[1])} on one side only.",
        highlight=False,
    )


def short_names(axes: Iterable[str]) -> dict[str, str]:
    """The last part of each dotted key, or all of it where that would be ambiguous."""
    keys = list(axes)
    last = Counter(key.rpartition(".")[2] for key in keys)
    return {
        key: key.rpartition(".")[2] if last[key.rpartition(".")[2]] == 1 else key for key in keys
    }


def shown(value: Any) -> str:
    """A setting's value for a table."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} {shown(item)}" for key, item in value.items() if item is not None)
    return json.dumps(value).strip("[]").replace('"', "") if value else "none"


def _cells_table(cells: Sequence[CertifiedCell], *, expects: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("cell", "verdict", *(["expected"] if expects else [])):
        table.add_column(name, overflow="fold")
    for name in ("cuts", "acknowledged", "lost"):
        table.add_column(name, justify="right", no_wrap=True)
    for cell in cells:
        table.add_row(
            escape(f"{cell.scenario}: {cell.cell}"),
            Text(f"{words.mark(cell.verdict)} {cell.verdict.name}", words.STYLES[cell.verdict]),
            *([_expected(cell)] if expects else []),
            f"{cell.cuts:,}",
            f"{cell.acked:,}",
            f"{cell.lost:,}",
        )
    return table


def _expected(cell: CertifiedCell) -> str:
    return "yes" if cell.as_expected else f"no: {cell.expected.value.upper()}"


def _left_out(certificate: Certificate) -> Iterable[Text]:
    """What of a machine's definition was not tested."""
    if (of := certificate.definition) is None:
        return
    style = words.STYLES[Verdict.INCONCLUSIVE]
    for one in of.disks_left_out:
        yield Text.assemble((f"NOT TESTED {one.what}: ", style), one.why)
    for one in of.left_out:
        yield Text.assemble((f"left out {one.what}: ", style), one.why)


def _axes_table(certificate: Certificate) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("setting")
    table.add_column("value", overflow="fold")
    verdicts = _shown({cell.verdict for cell in certificate.cells})
    for verdict in verdicts:
        table.add_column(f"{words.mark(verdict)} {verdict.name}", justify="right", no_wrap=True)
    names = short_names(certificate.axes)
    settings = [(flat(cell.parameters), cell.verdict) for cell in certificate.cells]
    for key, values in certificate.axes.items():
        for number, value in enumerate(values):
            count = Counter(verdict for cell, verdict in settings if cell[key] == value)
            table.add_row(
                escape(names[key]) if not number else "",
                escape(shown(value)),
                *(f"{count[verdict]:,}" if count[verdict] else "" for verdict in verdicts),
            )
    return table


def _shown(found: Container[Verdict]) -> list[Verdict]:
    """The verdicts to be counted; SURVIVED, which few machines come to, only if it is there."""
    return [verdict for verdict in Verdict if verdict is not Verdict.SURVIVED or verdict in found]


def _not_safe(cells: Sequence[CertifiedCell], *, expects: bool) -> Iterable[Text]:
    """Cells that are not SAFE, those of one cause together."""
    groups: dict[tuple[Verdict, str], list[CertifiedCell]] = {}
    for cell in cells:
        if cell.verdict is not Verdict.SAFE:
            groups.setdefault((cell.verdict, cell.cause or cell.explanation), []).append(cell)
    for (verdict, cause), members in groups.items():
        yield Text.assemble(
            (f"{words.mark(verdict)} {verdict.name}", words.STYLES[verdict]),
            f" {words.count(len(members), 'cell')}: ",
            cause,
        )
        for cell in members:
            doubt = "" if cell.confirmed is not False else ", cut and analysis differ"
            odd = expects and not cell.as_expected
            expected = f", expected {cell.expected.value.upper()}" if odd else ""
            yield Text(
                f"    {cell.scenario}: {cell.cell}: {cell.lost:,} of {cell.acked:,} lost"
                f"{doubt}{expected}",
                "bold" if odd else "",
            )


def _bottom_line(certificate: Certificate) -> Text:
    cuts = sum(cell.cuts for cell in certificate.cells)
    spent = (
        f"{words.count(len(certificate.cells), 'cell')}, {words.count(cuts, 'power cut')} in "
        f"{certificate.seconds / 60:.1f} min, seed {certificate.seed}"
    )
    if (of := certificate.definition) is not None:
        worst = max(cell.verdict for cell in certificate.cells)
        worst = max(worst, Verdict.INCONCLUSIVE) if of.disks_left_out else worst
        told = f"{words.mark(worst)} {of.machine}: {worst.name}. {spent}."
        return Text(told, words.STYLES[worst])
    if certificate.as_expected:
        return Text(f"All as expected. {spent}.", "bold green")
    wrong = sum(not cell.as_expected for cell in certificate.cells)
    return Text(f"{words.count(wrong, 'cell')} not as expected. {spent}.", "bold red")
