# SPDX-License-Identifier: Apache-2.0
"""An audit of flushes for a person in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from powercut.model.units import milliseconds
from powercut.report import words
from powercut.store.audit import Audit, AuditedPromise, PromiseKind, Worth

_SHOWN: Final = 3

_MEANING: Final = {
    Worth.CARRIES: "without it, bytes of an acknowledged record are not durable",
    Worth.LEADS: "without it, a recovered state loses something acknowledged",
    Worth.IDLE: "nothing hung on it: the same crash states are legal without it",
    Worth.UNSEEN: "it made something durable; no state that was looked at needs it (no proof)",
}
_COLUMN: Final = {
    Worth.CARRIES: "carry",
    Worth.LEADS: "lead",
    Worth.IDLE: "idle",
    Worth.UNSEEN: "unseen",
}


def print_audit(console: Console, audit: Audit) -> None:
    """What the promises of one recording carry, and what nobody needs."""
    console.print(
        f"{audit.scenario}, {audit.cell}, trial {audit.trial}: {_sums(audit)}", style="bold"
    )
    if not audit.promises:
        console.print("No flush and no FUA write made anything durable: there is nothing to audit.")
    else:
        console.print(_by_worth(audit))
        for worth in Worth:
            if audit.of(worth):
                console.print(f"{worth.value}: {_MEANING[worth]}", highlight=False)
        console.print(_by_content(audit))
    _print_missing(console, audit)
    _print_examples(console, audit)
    console.print(_states_line(audit), highlight=False)
    for why in audit.undecided[:_SHOWN]:
        console.print(f"not judged: {escape(why)}", style="yellow", highlight=False)
    console.print()


def _sums(audit: Audit) -> str:
    flushes = sum(one.kind is PromiseKind.FLUSH for one in audit.promises)
    fua = len(audit.promises) - flushes
    kinds = [words.count(flushes, "flush")] * bool(flushes or not fua)
    kinds += [words.count(fua, "FUA write")] * bool(fua)
    return f"{words.count(audit.acknowledged, audit.counted)} acknowledged, {' and '.join(kinds)}"


def _took_ms(promises: Sequence[AuditedPromise]) -> float:
    return sum(one.took_us for one in promises) / 1000


def _share(promises: Sequence[AuditedPromise], audit: Audit) -> str:
    return f"{100 * _took_ms(promises) / (_took_ms(audit.promises) or 1.0):.0f} %"


def _by_worth(audit: Audit) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("worth")
    for name in ("promises", "time in them", "share"):
        table.add_column(name, justify="right")
    for worth in Worth:
        promises = audit.of(worth)
        if promises:
            time_ms = milliseconds(_took_ms(promises))
            table.add_row(worth.value, f"{len(promises):,}", time_ms, _share(promises, audit))
    return table


def _by_content(audit: Audit) -> Table:
    """A row for each kind of thing that hung on promises."""
    groups: dict[tuple[str, str], list[AuditedPromise]] = {}
    for one in audit.promises:
        held = ", ".join(sorted(one.holds)) or "nothing"
        groups.setdefault((one.kind.value, held), []).append(one)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("request")
    table.add_column("made durable")
    for name in ("all", *(_COLUMN[worth] for worth in Worth), "share"):
        table.add_column(name, justify="right")
    for (kind, held), promises in sorted(groups.items(), key=lambda item: -len(item[1])):
        counts = [sum(one.worth is worth for one in promises) for worth in Worth]
        told = [f"{number:,}" if number else "-" for number in counts]
        table.add_row(kind, held, f"{len(promises):,}", *told, _share(promises, audit))
    return table


def _print_missing(console: Console, audit: Audit) -> None:
    for late in audit.late[:_SHOWN]:
        end = "nothing made it durable" if late.promise < 0 else (
            f"request {late.promise:,} made it durable, {milliseconds(late.longest_ms)} later"
        )  # fmt: skip
        console.print(
            f"a sync is missing: LSN {words.ranges(late.lsns)} was acknowledged before; {end}",
            style="red",
            highlight=False,
        )
    if len(audit.late) > _SHOWN:
        console.print(f"and {len(audit.late) - _SHOWN:,} more like this")


def _print_examples(console: Console, audit: Audit) -> None:
    """The first promises of the classes that somebody will want to look at."""
    for worth in (Worth.LEADS, Worth.IDLE):
        promises = audit.of(worth)
        for one in promises[:_SHOWN]:
            told = f"{worth.value}: {one.kind.value} {one.request:,} at {one.at_ms:.3f} ms"
            if one.hanging:
                told += f", {words.count(one.hanging, 'write')} hung on it ({', '.join(one.holds)})"
            if one.states:
                told += f"; {one.states_lost} of {words.count(one.states, 'state')} lose something"
            console.print(told, highlight=False)
            if one.message:
                console.print(f"   {escape(one.message)}", highlight=False)
        if len(promises) > _SHOWN:
            console.print(f"   and {len(promises) - _SHOWN:,} more")


def _states_line(audit: Audit) -> str:
    if not audit.engine:
        return "states: none were recovered; classes rest on bytes alone"
    return (
        f"states: {audit.states:,} recovered with engine {audit.engine}, each legal only without "
        f"one of {words.count(audit.states_from, 'promise')}, in {audit.seconds:.1f} s"
    )
