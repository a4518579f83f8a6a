# SPDX-License-Identifier: Apache-2.0
"""An audit of flushes for a person in a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from powercut.model.units import milliseconds
from powercut.report import words
from powercut_extras.audit.stored import (
    Asker,
    Audit,
    AuditedPromise,
    MissingWrites,
    PromiseKind,
    Worth,
)
from powercut_extras.audit.sync_site import SyncSite

_SHOWN: Final = 3
_ASKERS_SHOWN: Final = 10
_NAMED: Final = 5

MEANING: Final = {
    Worth.CARRIES: "without it, bytes of an acknowledged record are not durable",
    Worth.LEADS: "without it, a recovered state loses something acknowledged",
    Worth.IDLE: "it made nothing durable: the same crash states are legal without it",
    Worth.UNSEEN: "it made something durable; no state that was looked at needs it (no proof)",
}
"""What is known of promises by their worth."""

_COLUMN: Final = {
    Worth.CARRIES: "carry",
    Worth.LEADS: "lead",
    Worth.IDLE: "idle",
    Worth.UNSEEN: "unseen",
}


def print_audit(console: Console, audit: Audit) -> None:
    """What the promises of one recording carry, and what is not needed."""
    console.print(
        f"{audit.scenario}, {audit.cell}, trial {audit.trial}: {_sums(audit)}", style="bold"
    )
    if not audit.promises:
        console.print("No flush and no FUA write made anything durable: there is nothing to audit.")
    else:
        console.print(_by_worth(audit))
        for worth in Worth:
            if audit.of(worth):
                console.print(f"{worth.value}: {MEANING[worth]}", highlight=False)
        console.print(_by_content(audit))
        _print_callers(console, audit)
    _print_missing(console, audit)
    _print_examples(console, audit)
    console.print(_states_line(audit), highlight=False)
    for one in audit.undecided[:_SHOWN]:
        told = f"not judged: {words.count(one.states, 'state')}: {escape(one.why)}"
        console.print(told, style="yellow", highlight=False)
    if rest := audit.undecided[_SHOWN:]:
        states = words.count(sum(one.states for one in rest), "state")
        console.print(f"not judged: {states} more, for {len(rest):,} other reasons", style="yellow")
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


def _print_callers(console: Console, audit: Audit) -> None:
    """Who asked for what, if the program's syncs were traced; then who asked for nothing needed."""
    if all(one.asker is Asker.NOT_TRACED for one in audit.promises):
        if audit.counted == "operation":
            console.print("who asked: not traced; record it with --trace-syncs", style="dim")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("asked by", overflow="fold")
    for name in ("calls", "all", *(_COLUMN[worth] for worth in Worth), "share"):
        table.add_column(name, justify="right")
    calls: Counter[str] = Counter()
    for site in audit.sites:
        calls[_told(site)] += site.calls
    groups = _by_asker(audit, _told)
    for asker, promises in list(groups.items())[:_ASKERS_SHOWN]:
        made = f"{calls[asker]:,}" if asker in calls else "-"
        table.add_row(escape(asker), made, *_counts(promises, audit))
    rest = list(groups.values())[_ASKERS_SHOWN:]
    if rest:
        promises = [one for group in rest for one in group]
        table.add_row(f"{len(rest):,} others", "", *_counts(promises, audit))
    console.print(table, highlight=False)
    _print_without_flush(console, audit)
    for why in audit.untraced:
        console.print(f"not traced: {escape(why)}", style="yellow", highlight=False)
    _print_for_nothing(console, audit)


def _counts(promises: Sequence[AuditedPromise], audit: Audit) -> list[str]:
    """The columns after the calls."""
    counts = [sum(one.worth is worth for one in promises) for worth in Worth]
    told = [f"{number:,}" if number else "-" for number in counts]
    return [f"{len(promises):,}", *told, _share(promises, audit)]


def _print_without_flush(console: Console, audit: Audit) -> None:
    """Call sites to which no flush belongs; opening a file asks for none."""
    asked = {number for one in audit.promises for number in one.sites}
    calls: Counter[str] = Counter()
    for site in audit.sites:
        if site.number not in asked and not site.opens:
            calls[site.what] += site.calls
    if calls:
        console.print(
            f"{words.count(calls.total(), 'call')} sent no flush: {_named(calls)}",
            markup=False,
            highlight=False,
        )


def _named(counts: Mapping[str, int]) -> str:
    """The largest, each with its number; how many others there are."""
    order = sorted(counts.items(), key=lambda item: -item[1])
    told = [f"{' '.join(name.split())} ({number:,})" for name, number in order[:_NAMED]]
    others = sum(number for _, number in order[_NAMED:])
    return ", ".join(told) + (f", others ({others:,})" if others else "")


def _told(site: SyncSite) -> str:
    return f"{site.what}\n{site.caller}"


def _by_asker(
    audit: Audit, told: Callable[[SyncSite], str], promises: Sequence[AuditedPromise] | None = None
) -> dict[str, list[AuditedPromise]]:
    """The promises by who asked, in the words of `told`; the largest group first."""
    sites = {site.number: told(site) for site in audit.sites}
    groups: dict[str, list[AuditedPromise]] = {}
    for one in audit.promises if promises is None else promises:
        askers = dict.fromkeys(sites[number] for number in one.sites)
        groups.setdefault("\nor ".join(askers) or one.asker.value, []).append(one)
    return dict(sorted(groups.items(), key=lambda item: -len(item[1])))


def _print_for_nothing(console: Console, audit: Audit) -> None:
    """The sentence that says where time could be saved."""
    unasked = sum(_is_unasked(one) for one in audit.promises)
    idle = [
        one
        for one in audit.promises
        if one.worth is Worth.IDLE or (one.worth is Worth.UNSEEN and one.states)
    ]
    if unasked:
        console.print(
            f"of {words.count(unasked, 'promise')} no state was looked at (--budget)",
            style="yellow",
            highlight=False,
        )
    if not idle:
        return
    groups = _by_asker(audit, lambda site: site.what, idle)
    told = _named({asker: len(group) for asker, group in groups.items()})
    console.print(
        f"{len(idle):,} of {words.count(len(audit.promises), 'promise')} carried nothing in the "
        f"states looked at: {_share(idle, audit)} of the time in them; they come from "
        f"{told}",
        markup=False,
        highlight=False,
    )
    looked = [one.states for one in idle if one.worth is Worth.UNSEEN]
    if looked:
        console.print(
            f"doubt: those that are not idle were looked at in {_range(looked)} each; more of them "
            "(--budget, --seed) may need one",
            style="yellow",
            highlight=False,
        )


def _range(states: Sequence[int]) -> str:
    low, high = min(states), max(states)
    return words.count(high, "state") if low == high else f"{low:,} to {high:,} states"


def _is_unasked(one: AuditedPromise) -> bool:
    """Whether something hung on it, and no state without it was recovered."""
    return one.worth is Worth.UNSEEN and not one.states


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
    if audit.unsynced:
        console.print(
            f"a sync is missing: no call of the program was under way between the attempt and the "
            f"acknowledgement of {audit.counted} {words.ranges(audit.unsynced)}",
            style="red",
            highlight=False,
        )


def _print_examples(console: Console, audit: Audit) -> None:
    """The first promises of the classes worth a look."""
    for worth in (Worth.LEADS, Worth.IDLE):
        promises = audit.of(worth)
        for one in promises[:_SHOWN]:
            told = f"{worth.value}: {one.kind.value} {one.request:,} at {one.at_ms:.3f} ms"
            if one.hanging:
                told += (
                    f", made {words.count(one.hanging, 'write')} durable ({', '.join(one.holds)})"
                )
            if one.states:
                told += f"; a loss in {one.states_lost} of {words.count(one.states, 'state')}"
            console.print(told, highlight=False)
            if one.missing:
                console.print(f"   {_missing(one, one.missing)}", highlight=False)
            if one.message:
                console.print(f"   {escape(one.message)}", highlight=False)
        if len(promises) > _SHOWN:
            console.print(f"   and {len(promises) - _SHOWN:,} more")


def _missing(one: AuditedPromise, missing: MissingWrites) -> str:
    """Which part of what hung on a promise its state lacks."""
    requests = ", ".join(f"{request:,}" for request in missing.requests[:_NAMED])
    requests += ", ..." * (len(missing.requests) > _NAMED)
    what = "torn" if missing.torn else "missing"
    told = f"{what} alone: {len(missing.requests):,} of {words.count(one.hanging, 'write')}"
    return f"{told}, {requests} ({', '.join(missing.holds)})"


def _states_line(audit: Audit) -> str:
    if not audit.engine:
        return "states: none were recovered; classes rest on bytes alone"
    in_part = sum(one.states_in_part for one in audit.promises)
    return (
        f"states: {audit.states:,} recovered with engine {audit.engine}, each legal only if "
        f"one of {words.count(audit.states_from, 'promise')} is ignored, {in_part:,} of them if a "
        f"part of what it made durable is missing, in {audit.seconds:.1f} s"
    )
