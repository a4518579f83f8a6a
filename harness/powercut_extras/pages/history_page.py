# SPDX-License-Identifier: Apache-2.0
"""The history of certificates and runs as one HTML file and as tables in the terminal."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Final
from urllib.parse import quote

from markupsafe import Markup
from rich import box
from rich.console import Console
from rich.markup import escape as plain
from rich.table import Table
from rich.text import Text

from powercut.model.verdict import Verdict
from powercut.report import words
from powercut.report.certificates import CERTIFICATE_PAGE, CellName, Night
from powercut.report.page.pages import page, ratio
from powercut.store.files import host_errors, write_atomic, write_output
from powercut_extras.pages.history import (
    NOISE_MIN,
    OWN_MIN,
    SPREADS,
    Changes,
    Series,
    changed_names,
    joined,
)
from powercut_extras.pages.history_reader import History

PAGE: Final = "history.html"
INDEX: Final = "index.html"
_FOLDER_MAX: Final = 120

NIGHTS_SHOWN: Final = 45
"""Runs that a strip shows, the newest ones; all of them count."""

ROWS_SHOWN: Final = 12
"""Runs, and lines of each kind of change, in the terminal."""

_RUN_REPORT: Final = "report.html"
_STEP: Final = 7
_HEIGHT: Final = 16
_SPARK: Final = 22


@dataclass(frozen=True)
class StripRow:
    """A cell over time."""

    name: CellName
    last: Verdict | None
    strip: Markup
    spark: Markup
    change: str


def write_history(history: History, target: Path | None = None) -> Path:
    """Writes the page; by default into the folder that was read.  Raises HostError."""
    path = target or history.root / PAGE
    write_output(path, history_html(history, path.absolute().parent).encode())
    return path


def publish_history(history: History, folder: Path) -> Path:
    """Writes the page as index.html into `folder`, with copies of the pages that it leads to, so
    that the folder can be published as it is.  Raises HostError.
    """
    placed: dict[Path, Path] = {}
    with host_errors(folder):
        for series in history.series:
            for night in series.nights:
                page_of = night.directory / _name_of(series)
                target = folder.absolute() / _plain(series.profile) / _plain(night.directory.name)
                if page_of.is_file():
                    target.mkdir(parents=True, exist_ok=True)
                    placed[night.directory] = target / page_of.name
                    write_atomic(target / page_of.name, page_of.read_bytes())
        folder.mkdir(parents=True, exist_ok=True)
    html = history_html(history, folder.absolute(), placed)
    write_output(folder / INDEX, html.encode())
    return folder / INDEX


def _plain(name: str) -> str:
    """As the name of a folder, whatever a result calls itself."""
    return re.sub(r"[^A-Za-z0-9._-]|^\.+", "_", name)[:_FOLDER_MAX] or "_"


def _name_of(series: Series) -> str:
    return CERTIFICATE_PAGE if series.certified else _RUN_REPORT


def history_html(history: History, folder: Path, placed: Mapping[Path, Path] | None = None) -> str:
    """The page, as it is to lie in `folder`: it links to the certificates from there, or to the
    copies of them that were `placed`.
    """

    def link(series: Series, night: Night) -> str:
        target = night.directory.absolute() / _name_of(series)
        if placed is not None:
            if night.directory not in placed:
                return ""
            target = placed[night.directory]
        return quote(Path(os.path.relpath(target, folder)).as_posix())

    return page("history.html.j2", "powercut_extras.pages").render(
        history=history,
        parts=[_part(series) for series in history.series],
        words=words,
        Verdict=Verdict,
        when=when,
        joined=joined,
        link=link,
        zip=zip,
        verifies=verifies,
        noise_min=NOISE_MIN,
        spreads=SPREADS,
        own_min=OWN_MIN,
        shown=NIGHTS_SHOWN,
    )


@dataclass(frozen=True)
class _Part:
    """One profile of the page."""

    series: Series
    changes: Changes | None
    turned: tuple[StripRow, ...]
    groups: tuple[tuple[str, tuple[StripRow, ...]], ...]


def _part(series: Series) -> _Part:
    rows = {name: _row(series, name) for name in series.names}
    ordered = sorted(rows, key=lambda name: name[0])
    return _Part(
        series,
        series.changes,
        tuple(rows[name] for name in changed_names(series)),
        tuple(
            (scenario, tuple(rows[name] for name in names))
            for scenario, names in groupby(ordered, key=lambda name: name[0])
        ),
    )


def _row(series: Series, name: CellName) -> StripRow:
    verdicts = series.verdicts(name)[-NIGHTS_SHOWN:]
    models = sorted(
        {cost[2] for night in series.nights for cost in night.costs if cost[:2] == name}
    )
    spark, change = Markup(), ""
    if models:
        # A real medium says more than none.
        model = next((m for m in models if m != "none"), models[0])
        values = series.corrected((*name, model))[-NIGHTS_SHOWN:]
        spark = Markup(spark_svg(values, f"{joined(name)}: commits a second on {model}"))
        known = [value for value in values if value]
        if known and values[-1]:
            middle = sorted(known)[len(known) // 2]
            change = f"{ratio(values[-1] / middle)}×"
    strip = Markup(strip_svg(verdicts, joined(name)))
    return StripRow(name, verdicts[-1] if verdicts else None, strip, spark, change)


def strip_svg(verdicts: Sequence[Verdict | None], name: str) -> str:
    """A square for each run: its colour, and its sign wherever the verdict is a new one."""
    said = ", ".join(
        f"{len(list(same))} {verdict.name if verdict is not None else 'without it'}"
        for verdict, same in groupby(verdicts)
    )
    parts = [
        f'<svg class="strip" viewBox="0 0 {len(verdicts) * _STEP} {_HEIGHT}" '
        f'width="{len(verdicts) * _STEP}" height="{_HEIGHT}" role="img">'
        f"<title>{escape(f'{name}, the oldest first: {said}')}</title>"
    ]
    at = 0
    for verdict, same in groupby(verdicts):
        width = len(list(same)) * _STEP
        if verdict is None:
            parts.append(f'<path class="axis" d="M{at} {_HEIGHT // 2}h{width}"/>')
        else:
            parts.append(
                f'<rect class="s{verdict.name}" x="{at}" width="{width - 1}" height="{_HEIGHT}"/>'
                f'<text x="{at + 1}" y="12">{words.mark(verdict)}</text>'
            )
        at += width
    return "".join((*parts, "</svg>"))


def spark_svg(values: Sequence[float | None], name: str) -> str:
    """A line over the runs, on a logarithmic scale from half to twice the middle value."""
    known = sorted(value for value in values if value)
    if not known:
        return ""
    middle = known[len(known) // 2]
    span = max(1.0, *(abs(math.log2(value / middle)) for value in known))
    path, drawn = [], False
    for number, value in enumerate(values):
        if not value:
            drawn = False
            continue
        y = _SPARK / 2 * (1 - math.log2(value / middle) / span)
        # A line alone would hide a single run between two gaps.
        path.append(f"{'L' if drawn else 'M'}{(number + 0.5) * _STEP:g} {y:.1f}h.1")
        drawn = True
    width = len(values) * _STEP
    said = f"{name}, corrected for the pace of each run: middle {middle:,.0f}/s"
    return (
        f'<svg class="spark" viewBox="0 -2 {width} {_SPARK + 4}" width="{width}" '
        f'height="{_SPARK + 4}" role="img"><title>{escape(said)}</title>'
        f'<path class="axis" d="M0 {_SPARK / 2}H{width}"/>'
        f'<path class="line" d="{"".join(path)}"/></svg>'
    )


def when(started: str) -> str:
    """The beginning of a run for a person: date and minute, UTC."""
    try:
        return datetime.fromisoformat(started).strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return started


def print_history(console: Console, history: History) -> None:
    """The runs of each profile, and what changed with the last."""
    for series in history.series:
        console.print()
        console.rule(
            Text(f"{series.profile}: {words.count(len(series.nights), series.noun)}", "bold"),
            align="left",
        )
        console.print(_runs(series))
        left = len(series.nights) - ROWS_SHOWN
        if left > 0:
            console.print(f"and {words.count(left, f'earlier {series.noun}')}", style="dim")
        for line in _unverified(series):
            console.print(plain(line), style="bold red", highlight=False, soft_wrap=True)
        _print_changes(console, series)
    for path, why in history.damaged:
        console.print(f"not readable: {plain(str(path))}: {plain(why)}", style="yellow")


def _runs(series: Series) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("started (UTC)", no_wrap=True)
    verdicts = sorted(series.verdicts_shown, reverse=True)
    for verdict in verdicts:
        name = "?" if verdict is Verdict.INCONCLUSIVE else f"{words.mark(verdict)} {verdict.name}"
        table.add_column(name, justify="right")
    table.add_column("unexpected", justify="right")
    if series.certified:
        for name in ("untested", "pace", "verifies"):
            table.add_column(name, justify="right")
    shown = list(zip(series.nights, series.paces, strict=True))[-ROWS_SHOWN:]
    for night, pace in shown:
        counts = (
            Text(
                f"{night.count(verdict):,}",
                words.STYLES[verdict] if night.count(verdict) else "dim",
            )
            for verdict in verdicts
        )
        odd = Text(f"{night.unexpected:,}", "bold red" if night.unexpected else "dim")
        row = [Text(when(night.started)), *counts, odd]
        if series.certified:
            said = Text(verifies(night), "bold red" if night.problems else "")
            row += [Text(f"{night.not_tested:,}"), Text(ratio(pace) if pace else "-"), said]
        table.add_row(*row)
    return table


def _unverified(series: Series) -> Iterator[str]:
    """A line for each certificate that does not verify."""
    for night in series.nights:
        if night.problems:
            more = len(night.problems) - 1
            yield (
                f"The certificate of {when(night.started)} does not verify: {night.problems[0]}"
                + (f", and {words.count(more, 'more problem')}" if more else "")
                + f". powercut verify {night.directory} says all."
            )


def verifies(night: Night) -> str:
    """Whether a certificate verifies, in a word or two."""
    if night.problems:
        return "no"
    return "yes" if night.beside else "alone"


def _print_changes(console: Console, series: Series) -> None:
    changes, before = series.changes, f"the {series.noun} before"
    if changes is None:
        console.print(f"One {series.noun}: there is nothing to compare it with.", style="dim")
        return
    lines = change_lines(changes)
    if not lines:
        console.print(f"Nothing changed since {before}.", style="green")
        return
    console.print(f"Since {before}:", style="bold")
    for style, text in lines:
        console.print(f"  {plain(text)}", style=style, highlight=False)


def change_lines(changes: Changes) -> list[tuple[str, str]]:
    """What changed, as (style, sentence): verdicts, cells, costs, versions."""
    lines: list[tuple[str, str]] = []
    for change in changes.verdicts:
        before = change.before.name if change.before is not None else "nothing"
        after = change.after.name if change.after is not None else "nothing"
        style = "bold red" if change.worse else "green"
        text = f"{joined(change.name)} was {before} and is {after}"
        lines.append((style, f"{text}. {change.explanation}".rstrip(". ") + "."))
    for what, names in (("new", changes.added), ("gone", changes.gone)):
        if names:
            some = "; ".join(joined(name) for name in names[:3])
            more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
            lines.append(("yellow", f"{words.count(len(names), 'cell')} {what}: {some}{more}"))
    for cost in changes.costs[:ROWS_SHOWN]:
        lines.append(
            (
                "yellow",
                f"{joined(cost.name)}: {ratio(cost.factor)}× its usual commits/s "
                f"({cost.usual:,.0f} would be usual at this pace, {cost.now:,.0f} now; noise is up "
                f"to {ratio(cost.noise)}×)",
            )
        )
    if len(changes.costs) > ROWS_SHOWN:
        more_costs = words.count(len(changes.costs) - ROWS_SHOWN, "more cost")
        lines.append(("yellow", f"and {more_costs}; the page has them"))
    lines += [
        ("cyan", f"{version.what}: {version.before or 'none'} -> {version.after or 'none'}")
        for version in changes.versions
    ]
    return lines
