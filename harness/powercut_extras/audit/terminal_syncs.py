# SPDX-License-Identifier: Apache-2.0
"""A program without its syncs, one at a time, for a person in a terminal."""

from __future__ import annotations

from typing import Final

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from powercut.paths import command
from powercut.report import words
from powercut_extras.audit.stored_syncs import (
    NEITHER,
    Noticed,
    SyncMutant,
    SyncMutants,
    WithoutSync,
)

_STYLE: Final = {Noticed.YES: "green", Noticed.NO: "yellow", Noticed.UNKNOWN: "dim"}
_CALLERS_SHOWN: Final = 3
_DOUBT: Final = (
    "Not noticed is not needless: this was one file system, one disk and one workload, and "
    "{states} of the legal crash states each."
)


def print_sync_mutants(console: Console, result: SyncMutants) -> None:
    """The table: call site, who noticed, in how many states; then what went unnoticed."""
    console.print(
        f"{' '.join(result.program)} on {result.filesystem}, all syncs: ",
        end="", markup=False, highlight=False,
    )  # fmt: skip
    console.print(
        Text(f"{words.mark(result.verdict)} {result.verdict.name}", words.STYLES[result.verdict]),
        end="",
    )
    acked = words.count(result.acknowledged, "operation")
    states = words.count(result.states, "state")
    console.print(f", {acked} acknowledged, {states} recovered", highlight=False)
    for reason in result.reasons:
        console.print(f"not known: {escape(reason)}", style="yellow", highlight=False)
    if not result.mutants:
        console.print("It made no call that asks for durable data.")
        return
    if all(one.powercut is None for one in result.mutants):
        console.print("Nothing follows from dropping a sync of such a run; its call sites:")
    console.print(_table(result))
    _print_unnoticed(console, result)
    for one in result.mutants:
        for who, said in (("powercut", one.powercut), ("test", one.test)):
            if said is not None and said.noticed is Noticed.UNKNOWN:
                text = f"sync {one.site.number}, {who}: not known: {escape(said.why)}"
                console.print(text, highlight=False)
        if one.skipped:
            console.print(f"sync {one.site.number}: not tried: {one.skipped}", highlight=False)
    console.print()
    for one in result.mutants:
        if one.powercut is not None and one.powercut.noticed is Noticed.YES:
            look = f"{command()} show {one.powercut.result}"
            console.print(
                f"sync {one.site.number:>3}: {look}", soft_wrap=True, markup=False, highlight=False
            )


def _table(result: SyncMutants) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", justify="right")
    table.add_column("call site", overflow="fold")
    table.add_column("calls", justify="right")
    table.add_column("powercut", no_wrap=True)
    if result.test:
        table.add_column("own test", no_wrap=True)
    table.add_column("noticed by", no_wrap=True)
    for one in result.mutants:
        row: list[str | Text] = [
            str(one.site.number),
            _site(one),
            f"{one.site.calls:,}",
            _powercut(one.powercut),
        ]
        if result.test:
            row.append(_noticed(one.test))
        table.add_row(*row, one.verdict)
    return table


def _site(one: SyncMutant) -> Text:
    callers = " < ".join(one.site.callers[:_CALLERS_SHOWN])
    return Text.assemble((one.site.what, "bold"), f"\n{callers}")


def _noticed(said: WithoutSync | None) -> Text:
    return Text("-") if said is None else Text(said.noticed.value, _STYLE[said.noticed])


def _powercut(said: WithoutSync | None) -> Text:
    text = _noticed(said)
    if said is not None and said.states:
        text.append(f"\n{said.states_lost:,} of {words.count(said.states, 'state')}", "dim")
    return text


def _print_unnoticed(console: Console, result: SyncMutants) -> None:
    missed = [one for one in result.mutants if one.verdict == NEITHER]
    if not missed:
        return
    states = [one.powercut.states for one in missed if one.powercut is not None]
    console.print("Dropped, and no check noticed:", style="bold")
    for one in missed:
        file = f" of {one.site.path}" if one.site.path else ""
        dropped = one.powercut.dropped if one.powercut is not None else 0
        console.print(
            f"  {one.site.number}: {one.site.call}{file} in {one.site.caller}, "
            f"{words.count(dropped, 'call')} dropped",
            markup=False,
            highlight=False,
        )
    low, high = min(states), max(states)
    text = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    console.print(_DOUBT.format(states=text), highlight=False)
