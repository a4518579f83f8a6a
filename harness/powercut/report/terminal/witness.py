# SPDX-License-Identifier: Apache-2.0
"""Draws a witness in the terminal: what was lost, why, and the time line around it.

The time line has a column for each lost write (`┌` submitted, `└` completed), one for
flushes, one for the ack and one for the cut:

       ms  w12 flush ack
    0.412   ┌              write 12: 512 bytes at 4,096 (record 1)
    0.420   └              write 12 completes
    0.431        ┌         a flush is sent
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape

from powercut.model.printable import printable
from powercut.paths import as_word, command
from powercut.report import words
from powercut.store.witness import DroppedWrite, Witness, WitnessEvent

_COLUMNS_MAX: Final = 6
_WIDTH: Final = 6
_SHOWN_WRITES: Final = 12
_SIGNS: Final = {
    "submit": "┌",
    "complete": "└",
    "flush": "┌",
    "flushed": "└",
    "ack": "✓",
    "cut": "✗",
}


def print_witness(console: Console, witness: Witness, directory: Path) -> None:
    """Prints `witness`, which lies in `directory`."""
    console.rule(f"witness {witness.state}", align="left")
    console.print(escape(witness.cause), highlight=False)
    how = "checked" if witness.promise else "recovered"
    console.print(
        f"\n{words.enough(witness).capitalize()}. The search began at "
        f"{escape(witness.start)} with {witness.dropped_before:,}, and {how} "
        f"{words.count(witness.tests, 'state')}{_engine(witness)}.",
        highlight=False,
    )
    console.print(
        f"Lost: {_numbers(witness)} {escape(witness.message)}",
        highlight=False,
    )
    _print_confirmation(console, witness)
    _print_writes(console, witness)
    _print_time_line(console, witness)
    here, powercut = escape(as_word(directory)), command()
    what, output = (" files", "state") if witness.promise else (" image", "disk.img")
    console.print(
        f"\n  look: {powercut} shell {here} {witness.state}\n"
        f"{what}: {powercut} export {here} {witness.state} --format state -o {output}",
        highlight=False,
        soft_wrap=True,
    )


def _numbers(witness: Witness) -> str:
    number = "LSN" if witness.unit == "record" else witness.unit
    return f"{number} {words.ranges(witness.lost)}." if witness.lost else "none by number."


def _engine(witness: Witness) -> str:
    reason = f", since {escape(witness.engine_reason)}" if witness.engine_reason else ""
    return "" if witness.promise else f" (engine {witness.engine}{reason})"


def _print_confirmation(console: Console, witness: Witness) -> None:
    if witness.promise:
        return  # its check was asked as often as what convicts
    match witness.confirmed:
        case "yes":
            text, style = f"Confirmed: {words.BORNE_OUT[witness.unit == 'record']}.", ""
        case "no":
            said = _said(witness)
            text, style = f"NOT CONFIRMED: {said}", "bold red"
        case _:
            text, style = f"Not confirmed in a guest. {witness.confirmation}".strip(), "yellow"
    console.print(escape(text), style=style, highlight=False)


def _said(witness: Witness) -> str:
    if witness.unit == "record":
        return f"the recorded kernel says: {witness.confirmation}"
    return f"the check contradicts itself: {witness.confirmation}"


def _print_writes(console: Console, witness: Witness) -> None:
    if not witness.dropped:
        return
    console.print("\nWhat is lost:")
    for write in witness.dropped[:_SHOWN_WRITES]:
        if write.text:
            at = (write.submitted_ns - witness.start_ns) / 1e6
            text = f"  {write.kind} {write.request}, at {at:.3f} ms: {write.text}"
            console.print(escape(f"{printable(text)}\n    {write.why}"), highlight=False)
            continue
        missing = sum(end - begin for begin, end in write.dropped)
        part = "" if missing == write.length else f", of which {missing:,} are lost"
        fua = " with FUA" if write.fua else ""
        console.print(
            f"  {write.kind} {write.request}{fua}, {write.length:,} bytes at {write.offset:,}"
            f"{part}; epoch {write.epoch}, {_times(witness, write)}",
            highlight=False,
        )
        for piece in write.parts:
            console.print(
                f"    {piece.begin:,}-{piece.end - 1:,}: {escape(piece.what)}", highlight=False
            )
        console.print(f"    {escape(write.why)}", highlight=False)
    left = len(witness.dropped) - _SHOWN_WRITES
    if left > 0:
        console.print(f"  and {words.count(left, 'more write')} in witness.json")


def _times(witness: Witness, write: DroppedWrite) -> str:
    if witness.imported:
        return "at a place in the order of a foreign log"
    submitted = f"submitted at {(write.submitted_ns - witness.start_ns) / 1e6:.3f} ms"
    if write.completed_ns is None:
        return f"{submitted}, never completed"
    return f"{submitted}, completed at {(write.completed_ns - witness.start_ns) / 1e6:.3f} ms"


def _print_time_line(console: Console, witness: Witness) -> None:
    unit = "order" if witness.imported else "ms"
    console.print(f"\nTime line ({'places in the log' if witness.imported else 'ms'}):")
    for line in time_line(witness.events, witness.dropped, witness.start_ns, unit=unit):
        console.print(printable(line), highlight=False, markup=False, soft_wrap=True)


def time_line(
    events: Sequence[WitnessEvent],
    dropped: Sequence[DroppedWrite],
    start_ns: int,
    *,
    unit: str = "ms",
) -> list[str]:
    """The lines of the drawing, its head first."""
    return time_line_of(events, [write.request for write in dropped], start_ns, unit=unit)


def time_line_of(
    events: Sequence[WitnessEvent], requests: Sequence[int], start_ns: int, *, unit: str = "ms"
) -> list[str]:
    """The same of the lost `requests` by number."""
    names = [f"w{request}" for request in requests[:_COLUMNS_MAX]]
    lanes = [*names, "flush", "ack", "cut"]
    lines = [f"{unit:>12}  " + "".join(f"{lane:^{_WIDTH}}" for lane in lanes).rstrip()]
    open_lanes: set[str] = set()
    for event in events:
        lane = _lane(event)
        cells = []
        for name in lanes:
            sign = "│" if name in open_lanes else " "
            if name == lane:
                sign = _SIGNS[event.kind]
            cells.append(f"{sign:^{_WIDTH}}")
        if event.kind in ("submit", "flush"):
            open_lanes.add(lane)
        elif event.kind in ("complete", "flushed"):
            open_lanes.discard(lane)
        at = str(event.at_ns) if unit != "ms" else f"{(event.at_ns - start_ns) / 1e6:.3f}"
        lines.append(f"{at:>12}  {''.join(cells)}  {event.text}")
    return lines


def _lane(event: WitnessEvent) -> str:
    match event.kind:
        case "submit" | "complete":
            return f"w{event.request}"
        case "flush" | "flushed":
            return "flush"
        case other:
            return other
