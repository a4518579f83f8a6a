# SPDX-License-Identifier: Apache-2.0
"""What the shell completes: scenarios, presets, cells and states.  Trouble completes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import click
from click.shell_completion import CompletionItem

_Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
_STATES = ("cut", "durable@cut", "everything@cut", "medium@cut", "ack:1", "flush:1")


def _completer(names: Callable[[click.Context], Iterable[str]], *, files: bool) -> _Completer:
    def complete(
        context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        del parameter
        found: list[CompletionItem] = []
        with suppress(Exception):  # a damaged file is said by the command, not by the key Tab
            found = [CompletionItem(name) for name in names(context) if name.startswith(incomplete)]
        if files and (not found or "/" in incomplete):
            found.append(CompletionItem(incomplete, type="file"))
        return found

    return complete


def _scenarios(context: click.Context) -> Iterable[str]:
    from powercut.cli.scenarios import known_scenarios

    del context
    return sorted(known_scenarios())


def _presets(context: click.Context) -> Iterable[str]:
    from powercut.scenario.preset import all_presets

    del context
    return sorted(preset.name for preset in all_presets())


def _cells(context: click.Context) -> Iterable[str]:
    evidence = context.params.get("evidence")
    if evidence is not None:
        from powercut.store.layout import ResultDir

        return [cell.cell for cell in ResultDir.open(Path(evidence)).read_verdict().cells]
    from powercut.cli.scenarios import chosen_scenarios

    scenarios = chosen_scenarios(context.params.get("scenarios") or (), ())
    return [draft.name for one in scenarios for draft, _ in one.cells]


def _states(context: click.Context) -> Iterable[str]:
    """The usual ones, and those that were found in the recording on the line."""
    from powercut.cli.lookup import find_trials

    recording = context.params.get("recording")
    found = []
    if recording is not None:
        with suppress(Exception):
            for folder in {Path(recording), *(one.path for one in find_trials(Path(recording)))}:
                found += [path.stem for path in sorted((folder / "states").glob("*.json"))]
    return [*_STATES, *found]


scenarios = _completer(_scenarios, files=True)
presets = _completer(_presets, files=False)
cells = _completer(_cells, files=False)
states = _completer(_states, files=False)
