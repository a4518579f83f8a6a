# SPDX-License-Identifier: Apache-2.0
"""How far a run is that is under way, in words."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from powercut.paths import command
from powercut.report import words
from powercut.store.progress import Busy, RunProgress

_SILENT_S: Final = 300.0
"""A run that says nothing for longer may have been broken off: a guest that is slow to boot says
less often how it is."""

_BUSY_SHOWN: Final = 4


@dataclass(frozen=True)
class Live:
    """What is told of a run that is under way."""

    done: int
    all: int
    told: str
    """What is done, of what: it changes with each power cut."""

    more: tuple[str, ...]
    """Pace, what is left, what is being done."""

    resume: str
    """What to type to go on with it, if it says nothing any more."""


def live_of(
    progress: RunProgress | None, folder: Path, verb: str, *, now: float | None = None
) -> Live | None:
    """In words; None if nothing is known."""
    if progress is None:
        return None
    silent = (time.time() if now is None else now) - progress.updated
    broken = silent > _SILENT_S
    resume = f"{command()} {verb} --resume {shlex.quote(str(folder))}" if broken else ""
    return Live(
        progress.cuts_done,
        progress.cuts,
        _told(progress),
        (f"No news for {_time(silent)}.",) if broken else tuple(_more(progress)),
        resume,
    )


def _told(progress: RunProgress) -> str:
    found = ", ".join(
        f"{number:,} {verdict.name}" for verdict, number in sorted(progress.verdicts.items())
    )
    return (
        f"{progress.cuts_done:,} of {words.count(progress.cuts, 'power cut')} judged"
        f"{f': {found}' if found else ''}; "
        f"{progress.cells_done:,} of {words.count(progress.cells, 'cell')} done"
    )


def _more(progress: RunProgress) -> Iterator[str]:
    if progress.states:
        of = "" if progress.states_all is None else f" of {progress.states_all:,}"
        rate = (
            f"{progress.states_per_s:,.1f}"
            if progress.states_per_s < 10
            else (f"{progress.states_per_s:,.0f}")
        )
        yield f"{progress.states:,}{of} crash states checked, {rate} a second in each trial."
    if (left := progress.seconds_left) is not None:
        yield f"About {_time(left)} left at the pace until now."
    shown = progress.busy[:_BUSY_SHOWN]
    more = len(progress.busy) - len(shown)
    if shown:
        others = f"; and {more:,} more" if more else ""
        yield "Now: " + "; ".join(map(_doing, shown)) + others + "."


def _doing(one: Busy) -> str:
    of = "" if one.states_all is None else f" of {one.states_all:,}"
    states = f" ({one.states:,}{of})" if one.states else ""
    return f"{one.cell} #{one.trial} {one.phase}{states}"


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
