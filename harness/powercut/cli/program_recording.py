# SPDX-License-Identifier: Apache-2.0
"""`powercut verify` of what `powercut record` left until version 0.2."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from powercut.cli.output import console_beside, write_json

if TYPE_CHECKING:
    from rich.console import Console

    from powercut.campaign.program import Listener, ProgramEvent


def verify_program(folder: Path, json_file: Path | None) -> int:
    """Judges a recording again; the exit status: 0 SAFE, 1 LOSSY or another verdict, else 3."""
    from powercut.campaign.program import ProgramLimits, judge_program
    from powercut.explore.request import Budget
    from powercut.model.verdict import Verdict
    from powercut.report.terminal.program_recording import print_program
    from powercut.store.program import ProgramDir

    directory = ProgramDir(folder.resolve())
    before = directory.read_result()
    console = console_beside(json_file)
    limits = ProgramLimits(Budget(states=before.states), before.state_s, before.seed)
    with _progress(console) as listener:
        after = judge_program(directory, limits, listener)
    print_program(console, directory.read_record(), after, directory.path)
    write_json(after.model_dump_json(indent=1), json_file)
    if (after.verdict, after.lossy_states) != (before.verdict, before.lossy_states):
        console.print(
            f"DIFFERS: it was {before.verdict} with {before.lossy_states} losing states",
            style="red",
        )
        return 1
    return {Verdict.SAFE: 0, Verdict.LOSSY: 1}.get(after.outcome, 3)


@contextmanager
def _progress(console: Console) -> Iterator[Listener]:
    """A line that says what is done now, on a terminal."""
    texts = {
        "control": "control: {0:,} states recovered, {1:,} lose something",
        "states": "{0:,} states recovered, {1:,} lose something",
    }
    with console.status("starting") as status:

        def show(event: ProgramEvent) -> None:
            status.update(texts[event.doing].format(event.done, event.lossy))

        yield show
