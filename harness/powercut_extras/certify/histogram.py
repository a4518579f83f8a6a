# SPDX-License-Identifier: Apache-2.0
"""Commit latencies as a small drawing, on a scale that is the same wherever it stands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Final

HEIGHT: Final = 26
BARS: Final = 50
FIRST_US: Final = 10.0
LAST_US: Final = 1_000_000.0
"""From 10 microseconds to a second, five decades; what lies outside stands at the edge."""

_DECADES: Final = math.log10(LAST_US / FIRST_US)


def histogram_bars(histogram: Sequence[tuple[float, int]]) -> list[int]:
    """Commits in each of the bars.  Takes the upper edge of each bucket in microseconds."""
    bars = [0] * BARS
    for edge_us, commits in histogram:
        place = math.log10(max(edge_us, FIRST_US) / FIRST_US) / _DECADES * BARS
        bars[min(int(place), BARS - 1)] += commits
    return bars


def histogram_svg(histogram: Sequence[tuple[float, int]], summary: str) -> str:
    """The drawing, as an <svg> element; empty if there is nothing to draw.

    The highest bar is as high as the drawing; ticks stand at each power of ten.
    """
    bars = histogram_bars(histogram)
    most = max(bars)
    if not most:
        return ""
    # A bucket with a single commit stays visible.  Relative moves keep thousands of these small.
    path = "".join(
        f"M{number} {HEIGHT}v-{max(round(commits / most * HEIGHT), 1)}"
        for number, commits in enumerate(bars)
        if commits
    )
    return (
        f'<svg class="hist" viewBox="0 0 {BARS} {HEIGHT + 3}" preserveAspectRatio="none">'
        f'<title>{escape(summary)}</title><use href="#decades"/><path d="{path}"/></svg>'
    )


def decades_symbol() -> str:
    """The ticks of every histogram of a page, to be defined once in its <defs>."""
    step = BARS / _DECADES
    ticks = "".join(f"M{number * step:g} {HEIGHT}v3" for number in range(int(_DECADES) + 1))
    return f'<path id="decades" d="M0 {HEIGHT}H{BARS}{ticks}"/>'
