# SPDX-License-Identifier: Apache-2.0
"""Who said what when, as a small drawing: a line for each event, a lane for each speaker.

        ms   workload  write  flush  power
     0.000      o                            the workload announces record 300
     0.310             ┬                     the disk takes write 812 with record 300
     0.352             ┴                     write 812 is reported done
     0.420                      ┬            a flush reaches the disk, which ignores it

Lines stand at equal distances, since what matters lies microseconds apart and the cut long
after.  Colours come from the style sheet of the page; shapes and words carry the meaning.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from powercut.store.loss_story import LANES, LossStory, Sign
from powercut.store.witness import Witness, WitnessEvent

WIDTH: Final = 880
TIME: Final = 80
LANE: Final = 62
LINE: Final = 18
GAP: Final = 7
TOP: Final = 26
LETTER: Final = 7.9
"""Width of an average letter, bold, at the size of the style sheet."""

LANES_MAX: Final = 6
"""Writes that get a lane of their own; the others of a witness are told without one."""


@dataclass(frozen=True)
class Step:
    """One event: when, in which lane, and in words.

    `begin` and `end` stand for a request that was in flight between them; `gone` for what
    is missing afterwards.  `at_ns` is None for what has no instant of its own.
    """

    at_ns: int | None
    lane: str
    sign: Sign
    text: str


def loss_svg(story: LossStory) -> str:
    """How a record was lost, as a drawing."""
    summary = f"how {story.unit} {story.lsn} was lost"
    steps = [Step(step.at_ns, step.lane, step.sign, step.text) for step in story.steps]
    return sequence_svg(steps, LANES, story.start_ns, summary)


def sequence_svg(
    steps: Sequence[Step],
    lanes: Sequence[str],
    start_ns: int,
    summary: str,
    *,
    unit: str = "ms",
) -> str:
    """The drawing, as an <svg> element; empty if there is nothing to draw.

    Instants are told in milliseconds since `start_ns`, or as they are with another `unit`.
    """
    if not steps:
        return ""
    text_at = TIME + LANE * len(lanes) + 14
    wrapped = [textwrap.wrap(step.text, int((WIDTH - text_at) / LETTER)) or [""] for step in steps]
    tops: list[int] = []
    y = TOP
    for lines in wrapped:
        tops.append(y)
        y += LINE * len(lines) + GAP
    middles = [top + LINE // 2 for top in tops]
    parts = [
        f'<svg class="sequence" viewBox="0 0 {WIDTH} {y + 4}" role="img" '
        f'aria-label="{escape(summary)}">',
        f"<title>{escape(summary)}</title>",
        f'<text class="tick" x="{TIME - 12}" y="14" text-anchor="end">{escape(unit)}</text>',
        *_lanes(lanes, y),
        *_bars(steps, lanes, middles),
    ]
    for step, lines, middle in zip(steps, wrapped, middles, strict=True):
        parts += _line(step, lines, lanes, middle, start_ns, unit)
    parts.append("</svg>")
    return "\n".join(parts)


def _centre(lanes: Sequence[str], lane: str) -> int | None:
    return TIME + LANE * lanes.index(lane) + LANE // 2 if lane in lanes else None


def _lanes(lanes: Sequence[str], bottom: int) -> Iterator[str]:
    for lane in lanes:
        x = _centre(lanes, lane)
        yield f'<text class="lane" x="{x}" y="14" text-anchor="middle">{escape(lane)}</text>'
        yield f'<line class="axis" x1="{x}" y1="{TOP - 4}" x2="{x}" y2="{bottom}"/>'


def _bars(steps: Sequence[Step], lanes: Sequence[str], middles: Sequence[int]) -> Iterator[str]:
    """What was in flight, from `begin` to `end`; without an end, to the cut."""
    open_at: dict[str, int] = {}
    for step, y in zip(steps, middles, strict=True):
        if step.sign == "begin":
            open_at[step.lane] = y
        elif step.sign in ("end", "cut"):
            closed = list(open_at) if step.sign == "cut" else [step.lane]
            for lane in closed:
                top, x = open_at.pop(lane, None), _centre(lanes, lane)
                if top is not None and x is not None:
                    yield (
                        f'<rect class="flight" x="{x - 4}" y="{top}" width="8" height="{y - top}"/>'
                    )


def _line(
    step: Step, lines: Sequence[str], lanes: Sequence[str], y: int, start_ns: int, unit: str
) -> Iterator[str]:
    if step.at_ns is not None:
        at = f"{(step.at_ns - start_ns) / 1e6:.3f}" if unit == "ms" else str(step.at_ns)
        yield f'<text class="tick" x="{TIME - 12}" y="{y + 4}" text-anchor="end">{at}</text>'
    end = TIME + LANE * len(lanes)
    if step.sign == "cut":
        yield f'<line class="cut" x1="{TIME}" y1="{y}" x2="{end}" y2="{y}"/>'
    x = _centre(lanes, step.lane)
    if x is not None:
        yield _sign(step.sign, x, y)
    style = {"cut": "cuttext", "gone": "losttext", "ack": "acktext"}.get(step.sign, "said")
    for number, text in enumerate(lines):
        place = f'x="{end + 14}" y="{y + 4 + number * LINE}"'
        yield f'<text class="{style}" {place}>{escape(text)}</text>'


def _sign(sign: Sign, x: int, y: int) -> str:
    match sign:
        case "begin" | "end":
            return f'<path class="edge" d="M{x - 9} {y}h18"/>'
        case "ack":
            return f'<text class="ackmark" x="{x}" y="{y + 5}" text-anchor="middle">✓</text>'
        case "cut" | "gone":
            return f'<text class="cutmark" x="{x}" y="{y + 5}" text-anchor="middle">✗</text>'
        case "note":
            return ""
        case _:
            return f'<circle class="point" cx="{x}" cy="{y}" r="4"/>'


_WITNESS_SIGNS: Final[dict[str, Sign]] = {
    "submit": "begin",
    "complete": "end",
    "flush": "begin",
    "flushed": "end",
    "ack": "ack",
    "cut": "cut",
}


def witness_svg(witness: Witness) -> str:
    """The time line of `witness`: its lost writes, the flushes, the ack and the cut."""
    shown = [f"w{write.request}" for write in witness.dropped[:LANES_MAX]]
    lanes = [*shown, "flush", "ack", "power"]
    steps = [
        Step(event.at_ns, _witness_lane(event), _WITNESS_SIGNS[event.kind], event.text)
        for event in witness.events
    ]
    return sequence_svg(
        steps,
        lanes,
        witness.start_ns,
        f"what happened around the writes that witness {witness.state} lacks",
        unit="order" if witness.imported else "ms",
    )


def _witness_lane(event: WitnessEvent) -> str:
    if event.kind in ("submit", "complete"):
        return f"w{event.request}"
    return {"flushed": "flush", "cut": "power"}.get(event.kind, event.kind)
