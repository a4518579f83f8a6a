# SPDX-License-Identifier: Apache-2.0
"""Measurements for a person in a terminal: what went over the wire, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from powercut.scenario.choices import DiskModel
from powercut_extras.certify.measurement import Cost, Measurement, RequestCounts

_BLOCKS = " ▁▂▃▄▅▆▇█"
_WIDTH = 10


def print_measurements(console: Console, measurements: Sequence[Measurement]) -> None:
    """Every cell: its wire account, its costs beside those of the safest cell, its troubles."""
    safest = safest_of(measurements)
    for measurement in measurements:
        console.print()
        console.print(Text(f"{measurement.scenario}, {measurement.cell}", "bold"))
        if measurement.wire:
            console.print(_wire(measurement))
            for text in wire_lines(measurement):
                console.print(text, highlight=False)
        if measurement.costs:
            console.print(_costs(measurement, None if measurement is safest else safest))
        for line in cost_lines(measurement):
            console.print(Text(line, "yellow"), highlight=False)
        if blind := blind_line(measurement):
            console.print(Text(blind, "dim"), highlight=False)
        if measurement.trouble:
            console.print(Text(f"trouble: {measurement.trouble}", "red"), highlight=False)


def safest_of(measurements: Sequence[Measurement]) -> Measurement | None:
    """The cell with which others are compared.

    Of those at which every promise reaches a disk that keeps it, the one that sends most of
    them: who is careful twice is safer than who is careful once.  None if there is no such
    cell.
    """
    kept = [m for m in measurements if m.wire and not m.wire.flush_ends_at and not m.trouble]
    return max(kept, key=_promises_per_commit, default=None)


def _promises_per_commit(measurement: Measurement) -> float:
    wire = measurement.wire
    if wire is None:
        return 0
    return (wire.disk.flushes + (wire.disk.fua_writes or 0)) / wire.commits


def _wire(measurement: Measurement) -> Table:
    wire = measurement.wire
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("for a commit", no_wrap=True)
    for name in ("writes", "with FUA", "flushes", "bytes"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("in its own words")
    if wire is None:
        return table
    per = wire.commits
    if wire.asked:
        kinds = _kinds(wire.asked.kinds)
        fua, flushes = _per(wire.asked.fua_writes, per), _per(wire.asked.flushes, per)
        table.add_row("file system asks", "", fua, flushes, "", kinds)
    layers = {
        "guest issues": wire.guest,
        "hypervisor gets": wire.hypervisor,
        "disk sees": wire.disk,
    }
    for name, counts in layers.items():
        if counts is None:
            table.add_row(name, *(["not known"] + [""] * 4))
        else:
            table.add_row(name, *_row(counts, per))
    return table


def _row(counts: RequestCounts, commits: int) -> list[str]:
    return [
        _per(counts.writes, commits),
        "?" if counts.fua_writes is None else _per(counts.fua_writes, commits),
        _per(counts.flushes, commits),
        f"{counts.written_bytes / commits:,.0f}",
        _kinds(counts.kinds),
    ]


def _per(number: int, commits: int) -> str:
    return f"{number / commits:.2f}"


def _kinds(kinds: dict[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in kinds.items())


def wire_lines(measurement: Measurement) -> list[Text]:
    """What the account comes to, in sentences."""
    wire = measurement.wire
    if wire is None:
        return []
    lines = [
        Text(
            f"{wire.requests_per_commit:.2f} requests a commit,"
            f" {wire.bytes_per_committed_byte:.2f} bytes for each that was committed"
            f" ({wire.commits:,} commits)"
        )
    ]
    if wire.flush_ends_at:
        ends = Text.assemble(("! flushes end at the " + wire.flush_ends_at, "bold red"))
        lines.append(ends + Text(f": {wire.because}"))
    else:
        told = "every promise of durability reaches the disk, and is kept there"
        lines.append(Text.assemble(("every commit is covered", "green"), f": {told}"))
        if wire.because:
            lines[-1] = Text(wire.because)
    return lines


def _costs(measurement: Measurement, safest: Measurement | None) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("disk", no_wrap=True)
    table.add_column("commits\n/s", justify="right", no_wrap=True)
    table.add_column("at\nmost", justify="right", no_wrap=True)
    if safest:
        table.add_column("beside\nsafest", justify="right", no_wrap=True)
    for name in ("p50", "p99", "max"):
        table.add_column(f"{name}\nms", justify="right", no_wrap=True)
    table.add_column("10 us\n    to 1 s", no_wrap=True)
    for cost in measurement.costs:
        limit = cost.medium_limit_per_s
        row: list[str | Text] = [cost.disk.value, f"{cost.commits_per_s:,.0f}"]
        row.append("" if limit is None else f"{limit:,.0f}")
        if safest:
            row.append(_ratio(cost, safest))
        latency = cost.latency
        row += [_ms(us) for us in (latency.p50_us, latency.p99_us, latency.max_us)]
        row.append(_sketch(cost))
        table.add_row(*row, style="bold yellow" if cost.too_fast else None)
    return table


def _ms(us: float) -> str:
    """Three digits of it."""
    ms = us / 1000
    return f"{ms:.2f}" if ms < 10 else f"{ms:.1f}" if ms < 100 else f"{ms:,.0f}"


def _ratio(cost: Cost, safest: Measurement) -> str:
    other = _on(safest, cost.disk)
    if other is None:
        return "-"
    ratio = cost.commits_per_s / other.commits_per_s
    return f"{ratio:.2f} x" if ratio < 10 else f"{ratio:,.0f} x"


def _on(measurement: Measurement, disk: DiskModel) -> Cost | None:
    return next((cost for cost in measurement.costs if cost.disk is disk), None)


def _sketch(cost: Cost) -> str:
    """The histogram, a character for half a decade from 10 us to 1 s."""
    bars = [0] * _WIDTH
    for upper_us, commits in cost.histogram:
        place = int((math.log10(max(upper_us, 10.0)) - 1) / 5 * _WIDTH)
        bars[min(place, _WIDTH - 1)] += commits
    top = max(bars) or 1
    return "".join(_BLOCKS[math.ceil(bar / top * (len(_BLOCKS) - 1))] for bar in bars)


def cost_lines(measurement: Measurement) -> list[str]:
    """Symptoms: commits that come faster than the medium can turn, or program its flash."""
    return [
        f"too fast: {cost.commits_per_s:,.0f} commits a second on {escape(cost.disk.value)},"
        f" which can make {cost.medium_limit_per_s:,.0f} durable, one after the other: a flush"
        " is missing somewhere, or several commits share one"
        for cost in measurement.costs
        if cost.too_fast
    ]


def blind_line(measurement: Measurement) -> str:
    """On which disks this host is too slow for a missing flush to show in the rate; or empty."""
    floor = _on(measurement, DiskModel.NONE)
    if floor is None:
        return ""
    hidden = [
        cost.disk.value
        for cost in measurement.costs
        if cost.medium_limit_per_s is not None
        and cost.medium_limit_per_s > floor.commits_per_s
        and not cost.too_fast
    ]
    if not hidden:
        return ""
    return (
        f"this host makes {floor.commits_per_s:,.0f} commits a second at most, whatever the disk:"
        f" the rate could not show a missing flush on {', '.join(hidden)}"
    )
