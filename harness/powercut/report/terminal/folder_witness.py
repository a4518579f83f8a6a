# SPDX-License-Identifier: Apache-2.0
"""The witness of a captured folder, for a person in a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rich.console import Console

from powercut.model.printable import printable
from powercut.paths import as_word, command, from_here
from powercut.report import words
from powercut.report.terminal.witness import time_line_of
from powercut.store.folder_witness import FolderWitness

_SHOWN: Final = 12


def print_folder_witness(console: Console, witness: FolderWitness, folder: Path) -> None:
    """Prints `witness`, which lies in `folder`."""

    def say(text: str) -> None:
        console.print(printable(text), markup=False, highlight=False)

    console.rule(f"witness {witness.state}", align="left")
    say(witness.cause)
    size = words.count(len(witness.dropped), "change")
    whole = "as small as can be" if witness.minimal else "perhaps not the smallest"
    say(
        f"\n{size} of {witness.volatile:,} volatile ones, {whole}; the search began at "
        f"{witness.start} with {witness.dropped_before:,}, and checked "
        f"{words.count(witness.tests, 'state')}."
    )
    say(f"Lost: {words.ranges(witness.lost) or 'no operation by number'}; {witness.message}")
    if witness.dropped:
        say("\nWhat is missing:")
    for one in witness.dropped[:_SHOWN]:
        at = f"{(one.submitted_ns - witness.start_ns) / 1e6:.3f} ms"
        say(f"  {one.kind} {one.request}, at {at}: {one.text}\n    {one.why}")
    if len(witness.dropped) > _SHOWN:
        say(f"  and {len(witness.dropped) - _SHOWN} more in witness.json")
    say("\nTime line (ms):")
    requests = [one.request for one in witness.dropped]
    for line in time_line_of(witness.events, requests, witness.start_ns):
        console.print(printable(line), highlight=False, markup=False, soft_wrap=True)
    here, powercut = as_word(folder), command()
    console.print(
        f"\n  look: {powercut} shell {here} {witness.state}\n"
        f" files: {powercut} export {here} {witness.state} --format state -o state\n"
        f"report: {from_here(folder) / 'report.html'}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
