# SPDX-License-Identifier: Apache-2.0
"""What a person is told who interrupts a run: what is kept, where, and how to go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from powercut.cli.output import echo
from powercut.model.events import CertifyStarted, RunStarted, TrialFinished
from powercut.paths import as_word, command, from_here


class Resumable:
    """Passes the events of a run on, and counts what is done."""

    def __init__(
        self, verb: str, listener: Callable[[Any], None], directory: Path | None = None
    ) -> None:
        """`directory` is what is resumed already, of a verb that makes several runs."""
        self._verb = verb
        self._listener = listener
        self._directory = directory
        self._trials = 0
        self._done = 0

    def __call__(self, event: Any) -> None:
        """Takes one event; a certificate is resumed as a whole, mutants of syncs by their first
        run."""
        match event:
            case CertifyStarted():
                self._directory, self._trials = event.directory, event.trials
            case RunStarted() if self._verb == "run":
                self._directory, self._trials, self._done = event.directory, event.trials, 0
            case RunStarted() if self._verb == "audit syncs":
                self._directory = self._directory or event.directory
                self._trials, self._done = event.trials, 0
            case TrialFinished():
                self._done += 1
        self._listener(event)

    @contextmanager
    def heard(self) -> Iterator[Callable[[Any], None]]:
        """Listens; says what is kept when its body is interrupted, and the interrupt goes on."""
        try:
            yield self
        except KeyboardInterrupt:
            if self._directory is not None:
                from powercut.report import words

                folder = from_here(self._directory)
                cuts = f"{self._done} of {words.count(self._trials, 'power cut')}"
                echo(f"\n{cuts} done, and kept: {folder}", err=True)
                resume = f"{command()} {self._verb} --resume {as_word(self._directory)}"
                echo(f"go on with: {resume}", err=True)
            raise
