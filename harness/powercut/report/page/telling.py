# SPDX-License-Identifier: Apache-2.0
"""One trial, drawn and told for a page: how a record was lost, the whole run, the witness."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

import numpy as np
from markupsafe import Markup

from powercut.model.errors import PowercutError
from powercut.model.verdict import LsnRange
from powercut.recording.view import view_of
from powercut.report import words
from powercut.report.difference import difference_lines
from powercut.report.page.sequence import loss_svg, witness_svg
from powercut.report.program_cut import FindingStory, stories_of_trial
from powercut.report.terminal.story import last_moments
from powercut.store.trial_dir import TrialDir
from powercut.store.trial_result import TrialResult
from powercut.store.view import I64, RecordingView
from powercut.store.witness import Witness, read_witness

_EMPTY: Final = Markup()


@dataclass(frozen=True)
class TrialStory:
    """The story of one trial as far as its recording is there and can be read."""

    directory: str
    trial: TrialResult | None = None
    sequence: Markup = _EMPTY
    timeline: Markup = _EMPTY
    moments: tuple[tuple[float, str], ...] = ()
    witness: Witness | None = None
    witness_drawing: Markup = _EMPTY
    problems: tuple[str, ...] = ()
    since: str = "the first attempt"
    """From when the times of `moments` count."""

    found: tuple[tuple[str, str], ...] = ()
    """What a program's check found after the cut, a name and a text each."""

    findings: tuple[FindingStory, ...] = ()
    """What a program lost, told."""


def tell_trial(
    trial: TrialDir, result: TrialResult, name: str, problems: Sequence[str] = ()
) -> TrialStory:
    """The story of one trial, drawn.  What cannot be read is said in its `problems`."""
    said = list(problems)
    witness = None
    try:
        witness = read_witness(trial.path)
    except PowercutError as error:
        said.append(str(error))
    view = view_of(trial)
    is_program = view.operations is not None
    said += [problem for problem in view.problems if problem not in said]
    # All three drawings escape what they are given; everything else in them is their own.
    return TrialStory(
        directory=trial.relative,
        trial=result,
        sequence=Markup(loss_svg(result.loss)) if result.loss is not None else _EMPTY,
        timeline=Markup(timeline_svg(view, result.lost_lsns, name)),
        moments=tuple(
            ((moment.at - view.start_ns) / 1e6, moment.text) for moment in last_moments(view)
        ),
        witness=witness,
        witness_drawing=Markup(witness_svg(witness)) if witness is not None else _EMPTY,
        problems=tuple(said),
        since="it was ready" if is_program else "the first attempt",
        found=tuple(difference_lines(view.difference)) if view.difference is not None else (),
        findings=tuple(stories_of_trial(trial, result)) if is_program else (),
    )


# The timeline of a trial as a small drawing: acks over time, what of them is lost, what
# the disk took, and the cut.
#
# Colours come from the style sheet of the page; shapes and words carry the meaning, so
# that it survives a black-and-white printer.

WIDTH: Final = 760
LEFT: Final = 104
RIGHT: Final = 20
PLOT: Final = WIDTH - LEFT - RIGHT
CURVE_TOP: Final = 22
CURVE_HEIGHT: Final = 120
LANE_HEIGHT: Final = 16
LANE_GAP: Final = 12
BUCKETS: Final = 320
"""Columns into which a lane is divided; more would not be seen."""


def timeline_svg(view: RecordingView, lost: Sequence[LsnRange], name: str) -> str:
    """The drawing, as an <svg> element; empty if there is nothing to draw."""
    span = view.end_ns - view.start_ns
    instants, lsns = view.curve()
    if span <= 0 or not len(instants):
        return ""
    writes, flushes = view.submitted(flushes=False), view.submitted(flushes=True)
    highest = int(lsns.max())
    top = CURVE_TOP + CURVE_HEIGHT + LANE_GAP
    lanes = [("flushes", flushes), ("writes", writes)]
    bottom = top + len(lanes) * (LANE_HEIGHT + LANE_GAP)
    flushed = f"{len(flushes):,} flush{'' if len(flushes) == 1 else 'es'}"
    unit = words.RECORDS if view.operations is None else words.OPERATIONS
    summary = (
        f"{name}: {words.count(highest, unit.noun)} acknowledged in {span / 1e6:.0f} ms; "
        f"{words.count(len(writes), 'write')} and {flushed} at the disk before the cut"
    )
    parts = [
        f'<svg class="timeline" viewBox="0 0 {WIDTH} {bottom + 30}" role="img" '
        f'aria-label="{escape(summary)}">',
        f"<title>{escape(summary)}</title>",
        *_lost_bands(view.on_curve(lost), lost, highest, unit),
        *_curve(view, instants, lsns, highest),
    ]
    for index, (label, at) in enumerate(lanes):
        y = top + index * (LANE_HEIGHT + LANE_GAP)
        parts += lane(label, at, view.start_ns, span, y)
    if view.cut_ns is not None:
        parts += cut_line(_x(view.cut_ns, view.start_ns, span), bottom)
    parts += axis(span, bottom)
    parts.append("</svg>")
    return "\n".join(parts)


def _x(at: int, start: int, span: int) -> float:
    return round(LEFT + PLOT * (at - start) / span, 1)


def _y(lsn: int, highest: int) -> float:
    return round(CURVE_TOP + CURVE_HEIGHT * (1 - lsn / highest), 1)


def _lost_bands(
    places: Sequence[LsnRange], lost: Sequence[LsnRange], highest: int, unit: words.Unit
) -> Iterator[str]:
    """Hatched bands over the acks of what is gone; `places` says where they stand."""
    for span in places:
        top, bottom = _y(span.last, highest), _y(span.first - 1, highest)
        yield (
            f'<rect class="lost" x="{LEFT}" y="{top}" width="{PLOT}" '
            f'height="{max(bottom - top, 1.5):.1f}" fill="url(#hatch)"/>'
        )
    if places:
        number = sum(len(span) for span in lost)
        middle = (_y(places[0].first, highest) + _y(places[-1].last, highest)) / 2
        y = min(max(middle, CURVE_TOP + 10), 140)
        whole = LsnRange(lost[0].first, lost[-1].last)
        text = f"lost: {words.count(number, unit.noun)}, {unit.place(str(whole))}"
        width = round(7 * len(text)) + 14
        yield (
            f'<rect class="label" x="{LEFT + 12}" y="{y - 11:.1f}" width="{width}" '
            'height="20" rx="3"/>'
        )
        yield f'<text class="losttext" x="{LEFT + 19}" y="{y + 3:.1f}">{escape(text)}</text>'


def _curve(view: RecordingView, instants: I64, lsns: I64, highest: int) -> Iterator[str]:
    start, span = view.start_ns, view.end_ns - view.start_ns
    chosen = np.unique(np.linspace(0, len(instants) - 1, BUCKETS).astype(np.int64))
    points = [f"{LEFT},{_y(0, highest)}"]
    before = 0
    for index in chosen:
        x = _x(int(instants[index]), start, span)
        points.append(f"{x},{_y(before, highest)}")
        before = int(lsns[index])
        points.append(f"{x},{_y(before, highest)}")
    points.append(f"{LEFT + PLOT},{_y(before, highest)}")
    base = CURVE_TOP + CURVE_HEIGHT
    yield f'<line class="axis" x1="{LEFT}" y1="{base}" x2="{LEFT + PLOT}" y2="{base}"/>'
    yield f'<line class="axis" x1="{LEFT}" y1="{CURVE_TOP}" x2="{LEFT}" y2="{base}"/>'
    yield f'<polyline class="acks" points="{" ".join(points)}"/>'
    for style, y, text in (
        ("tick", CURVE_TOP + 4, f"{highest:,}"),
        ("lane", CURVE_TOP + CURVE_HEIGHT // 2, "acknowledged"),
        ("tick", base, "0"),
    ):
        yield f'<text class="{style}" x="{LEFT - 8}" y="{y}" text-anchor="end">{text}</text>'


def lane(label: str, at: I64, start: int, span: int, y: int) -> Iterator[str]:
    """A line of marks at instants `at`; the drawing begins at `start` and lasts `span` ns."""
    middle = y + LANE_HEIGHT / 2
    yield (
        f'<text class="lane" x="{LEFT - 8}" y="{middle + 4:.0f}" text-anchor="end">'
        f"{escape(label)} {len(at):,}</text>"
    )
    yield f'<line class="axis" x1="{LEFT}" y1="{middle}" x2="{LEFT + PLOT}" y2="{middle}"/>'
    if not len(at):
        yield f'<text class="tick" x="{LEFT + 8}" y="{middle - 3:.0f}">none</text>'
        return
    column = np.minimum((at - start) * BUCKETS // span, BUCKETS - 1)
    counts = np.bincount(column, minlength=BUCKETS)
    most = int(counts.max())
    step = PLOT / BUCKETS
    marks = [
        f"M{LEFT + index * step:.1f} {middle - height / 2:.1f}v{height:.1f}"
        for index, number in enumerate(counts)
        if number
        for height in [LANE_HEIGHT * (0.4 + 0.6 * int(number) / most)]
    ]
    yield f'<path class="marks" d="{"".join(marks)}"/>'


def cut_line(x: float, bottom: int) -> Iterator[str]:
    """Where the power fails."""
    yield f'<line class="cut" x1="{x}" y1="{CURVE_TOP - 6}" x2="{x}" y2="{bottom}"/>'
    y = CURVE_TOP - 9
    yield f'<text class="cuttext" x="{x + 4}" y="{y}" text-anchor="end">power cut</text>'


def axis(span: int, bottom: int) -> Iterator[str]:
    """The times below a drawing that lasts `span` ns."""
    for share, anchor in ((0, "start"), (0.5, "middle"), (1, "end")):
        x = LEFT + PLOT * share
        text = f"{span * share / 1e6:.0f} ms"
        yield f'<text class="tick" x="{x}" y="{bottom + 16}" text-anchor="{anchor}">{text}</text>'
