# SPDX-License-Identifier: Apache-2.0
"""progress.json: how far a run has come that is under way, for those who watch it.

It is no evidence, is not synced, and goes when the run has come to its end.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from powercut.model.errors import DamagedRecording
from powercut.store.record import Record, VerdictName, find_model

PROGRESS: Final = "progress.json"


class Busy(Record):
    """A trial that is under way."""

    cell: str
    trial: int
    phase: str
    states: int = 0
    """Crash states of it that have been checked, ..."""

    states_all: int | None = None
    """... of so many; null if time is what ends it."""


class RunProgress(Record):
    """The document.  Cuts are trials, controls included; some controls follow from verdicts, so
    that there may be more of them in the end."""

    format: Literal["powercut-progress/1"] = "powercut-progress/1"
    updated: float
    """When this was written, in seconds since 1970."""

    seconds: float
    """Since this session of the run began."""

    cells: int
    cells_done: int
    cuts: int
    cuts_done: int
    cuts_before: int
    """Of those done, how many an earlier session had made."""

    verdicts: dict[VerdictName, int]
    states: int
    """Crash states that were checked in this session."""

    states_per_s: float
    """While states were being checked; 0 before any was."""

    states_all: int | None
    """How many the settings ask for in all; null if time is what ends some."""

    busy: tuple[Busy, ...]

    @property
    def seconds_left(self) -> float | None:
        """At the pace of this session; None before its first cut."""
        made = self.cuts_done - self.cuts_before
        return None if made <= 0 else self.seconds / made * max(self.cuts - self.cuts_done, 0)


def write_progress(folder: Path, progress: RunProgress) -> None:
    """Replaces the document; what cannot be written is left: the run goes on."""
    path = folder / f".{PROGRESS}.{os.getpid()}"
    with suppress(OSError):
        path.write_text(progress.model_dump_json())
        path.replace(folder / PROGRESS)


def read_progress(folder: Path) -> RunProgress | None:
    """Reads it; None if there is none that can be read."""
    try:
        return find_model(folder / PROGRESS, RunProgress)
    except DamagedRecording:
        return None


def remove_progress(folder: Path) -> None:
    """Removes it."""
    with suppress(OSError):
        (folder / PROGRESS).unlink(missing_ok=True)
