# SPDX-License-Identifier: Apache-2.0
"""Shows a run while it happens: a bar on a terminal, a line a trial elsewhere."""

from __future__ import annotations

from contextlib import ExitStack

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.progress import TimeElapsedColumn as Elapsed

from powercut.closing import ResourceOwner
from powercut.model.events import (
    Notice,
    RunEvent,
    RunFinished,
    RunStarted,
    TrialFinished,
    TrialPhase,
)
from powercut.report import words
from powercut.report.words import STYLES


class ProgressView(ResourceOwner):
    """A listener for run events; a context manager, since it may hold the terminal.

    Events may come from several threads.
    """

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            Elapsed(),
            TextColumn("{task.fields[now]}", style="dim"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task: TaskID | None = None
        self._now: dict[str, str] = {}
        """What each that is under way is busy with."""

    def _open(self, stack: ExitStack) -> None:
        stack.enter_context(self._bar)

    def __call__(self, event: RunEvent) -> None:
        match event:
            case RunStarted():
                self._console.print(
                    f"{escape(event.scenario)}: {words.count(len(event.cells), 'cell')}, "
                    f"{words.count(event.trials, 'power cut')} with controls, seed {event.seed}",
                    highlight=False,
                    soft_wrap=True,
                )
                self._drop_task()
                self._task = self._bar.add_task(escape(event.scenario), total=event.trials, now="")
            case TrialPhase():
                if self._task is not None:
                    so_far = f" {event.so_far}" if event.so_far else ""
                    self._now[event.cell] = f"{event.cell}: {event.phase.value}{so_far}"
                    self._bar.update(self._task, now="; ".join(self._now.values()))
            case TrialFinished():
                self._trial_finished(event)
            case Notice():
                self._console.print(escape(event.text), style="dim", highlight=False)
            case RunFinished():
                self._drop_task()

    def _trial_finished(self, event: TrialFinished) -> None:
        self._now.pop(event.cell, None)
        if self._task is not None:
            # The estimate at the start may be too low: some controls follow from verdicts.
            task = self._bar.tasks[self._bar.task_ids.index(self._task)]
            total = max(task.total or 0, task.completed + 1)
            self._bar.update(self._task, advance=1, total=total, now="")
        if event.earlier:  # it was told when it was made
            return
        style = STYLES[event.verdict]
        kind = "control " if event.control else ""
        self._console.print(
            f"  [{style}]{words.mark(event.verdict)} {event.verdict.name:<12}[/] "
            f"{kind}{escape(event.cell)} #{event.trial}: "
            f"{event.acked:,} acknowledged, {event.lost:,} lost, {event.seconds:.1f} s",
            highlight=False,
            soft_wrap=True,
        )

    def _drop_task(self) -> None:
        if self._task is not None:
            self._bar.remove_task(self._task)
            self._task = None
            self._now.clear()
