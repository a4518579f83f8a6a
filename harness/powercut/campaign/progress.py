# SPDX-License-Identifier: Apache-2.0
"""Writes down how far a run has come while it is under way (powercut.store.progress)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Lock, Timer
from typing import Final

from powercut.explore.request import ExploreProgress
from powercut.explore.trial import wanted_by
from powercut.model.events import RunEvent, RunStarted, TrialFinished, TrialPhase
from powercut.model.verdict import Verdict
from powercut.scenario.plan import Plan
from powercut.store.progress import Busy, RunProgress, remove_progress, write_progress

EVERY_S: Final = 0.5


class ProgressFile:
    """Hears the events of a run, from several threads, and writes after them, twice a second at
    most: an event that comes sooner is written when the half second is over, though no other comes.
    """

    def __init__(
        self, folder: Path, plan: Plan, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder = folder
        self._now = now
        self._begun, self._written = now(), float("-inf")
        self._lock = Lock()
        self._due: Timer | None = None
        self._ended = False
        self._trials = Counter(cell.name for cell in plan.cells for _ in cell.trials)
        self._states_all = states_of(plan)
        self._cuts = plan.trials
        self._done = Counter[str]()
        self._controls = self._before = self._cells_done = 0
        self._verdicts = Counter[Verdict]()
        self._rates: dict[tuple[str, int], tuple[int, float]] = {}
        self._busy: dict[tuple[str, int], Busy] = {}

    def __call__(self, event: RunEvent) -> None:
        """Takes one event."""
        with self._lock:
            match event:
                case RunStarted():
                    self._cuts = event.trials
                case TrialPhase():
                    key = event.cell, event.trial
                    self._busy[key] = Busy(
                        cell=event.cell, trial=event.trial, phase=event.phase.value
                    )
                case TrialFinished():
                    self._finished(event)
            self._write_soon()

    def _finished(self, event: TrialFinished) -> None:
        key = event.cell, event.trial
        self._busy.pop(key, None)
        self._verdicts[event.verdict] += 1
        self._before += event.earlier
        if event.control:
            self._controls += 1
        else:
            self._done[event.cell] += 1
            self._cells_done += self._done[event.cell] == self._trials.get(event.cell)

    def states(self, cell: str, trial: int) -> Callable[[ExploreProgress], None]:
        """Hears how far the exploration of one trial is."""
        key = cell, trial

        def hear(event: ExploreProgress) -> None:
            with self._lock:
                self._rates[key] = event.states, event.seconds
                if (busy := self._busy.get(key)) is not None:
                    update = {"states": event.states, "states_all": event.budget.states}
                    self._busy[key] = busy.model_copy(update=update)
                self._write_soon()

        return hear

    def remove(self) -> None:
        """The run has come to its end."""
        with self._lock:
            self._ended = True
            if self._due is not None:
                self._due.cancel()
            remove_progress(self._folder)

    def _write_soon(self) -> None:
        if self._due is not None or self._ended:
            return
        wait_s = self._written + EVERY_S - self._now()
        if wait_s <= 0:
            self._write()
            return
        self._due = Timer(wait_s, self._write_due)
        self._due.start()

    def _write_due(self) -> None:
        with self._lock:
            self._due = None
            if not self._ended:
                self._write()

    def _write(self) -> None:
        now = self._written = self._now()
        done = self._done.total() + self._controls
        seconds = sum(seconds for _, seconds in self._rates.values())
        states = sum(states for states, _ in self._rates.values())
        write_progress(
            self._folder,
            RunProgress(
                updated=time.time(),
                seconds=round(now - self._begun, 2),
                cells=len(self._trials),
                cells_done=self._cells_done,
                cuts=max(self._cuts, done),
                cuts_done=done,
                cuts_before=self._before,
                verdicts=dict(self._verdicts),
                states=states,
                states_per_s=round(states / seconds, 2) if seconds > 0 else 0.0,
                states_all=self._states_all,
                busy=tuple(self._busy.values()),
            ),
        )


def states_of(plan: Plan) -> int | None:
    """How many crash states the settings ask for in all trials; None if time ends some."""
    states = 0
    for cell in plan.cells:
        wanted = wanted_by(cell.parameters, 0)
        if wanted is None:
            continue
        if wanted.budget.states is None:
            return None
        states += wanted.budget.states * len(cell.trials)
    return states
