# SPDX-License-Identifier: Apache-2.0
"""Exposures for a person in a terminal."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from powercut.model.exposure import ExposureReport
from powercut.model.units import NEVER, milliseconds
from powercut.report import words

_ROWS_MAX = 20
_BAR = 40
_EDGES_MS = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)


def print_exposure(console: Console, title: str, report: ExposureReport) -> None:
    """Which records were acknowledged too early, by which write, and for how long."""
    exposed = np.flatnonzero(report.exposed)
    console.print(
        f"{title}: {words.count(len(report.lsn), 'record')} acknowledged, "
        f"{len(exposed):,} of them before they were durable",
        style="bold",
        highlight=False,
    )
    if len(report.unknown_lsns):
        console.print(
            "unknown, since the log of the disk ends too early: "
            f"{words.ranges(report.unknown_lsns)}",
            style="yellow",
        )
    if not len(exposed):
        console.print()
        return
    console.print(_worst(report, exposed))
    console.print(_histogram(report, exposed))


def _worst(report: ExposureReport, exposed: np.ndarray) -> Table:
    order = exposed[np.argsort(-report.exposed_ns[exposed], kind="stable")][:_ROWS_MAX]
    more = len(exposed) - len(order)
    title = "longest exposures" + (f" ({more:,} more are not shown)" if more else "")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for name in ("LSN", "exposed for", "durable", "write", "epoch"):
        table.add_column(name, justify="right")
    for at in order.tolist():
        write, epoch = int(report.write[at]), int(report.epoch[at])
        undone = bool(report.undone[at])
        never = bool(report.durable_ns[at] == NEVER)
        table.add_row(
            f"{int(report.lsn[at]):,}",
            milliseconds(report.exposed_ns[at] / 1e6),
            "written over" if undone else "never" if never else "later",
            "never written" if write < 0 else f"{write:,}",
            "-" if epoch < 0 else f"{epoch:,}",
        )
    return table


def _histogram(report: ExposureReport, exposed: np.ndarray) -> Table:
    times_ms = report.exposed_ns[exposed] / 1e6
    counts, _ = np.histogram(times_ms, bins=[-1.0, *_EDGES_MS, np.inf])
    labels = [f"under {_EDGES_MS[0]:g} ms"]
    labels += [f"{low:g} to {high:g} ms" for low, high in pairwise(_EDGES_MS)]
    labels.append(f"over {_EDGES_MS[-1]:g} ms")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="exposures", title_justify="left")
    for name in ("for", "records", ""):
        table.add_column(name, justify="left" if not name else "right")
    used = np.flatnonzero(counts)
    for at in range(int(used[0]), int(used[-1]) + 1):
        bar = "█" * -(-_BAR * int(counts[at]) // int(counts.max()))
        table.add_row(labels[at], f"{int(counts[at]):,}", bar)
    return table
