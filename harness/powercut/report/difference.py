# SPDX-License-Identifier: Apache-2.0
"""What a program's check found, against what was acknowledged: shortened for a person.

The exact numbers stand in verdict.json and exploration.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from powercut.model.verdict import Difference, LsnRange, count_in
from powercut.report import words

_RANGES: Final = 6
_WORDS: Final = 4
_WORDS_WIDTH: Final = 200


def difference_lines(difference: Difference) -> list[tuple[str, str]]:
    """A name and a text for each line, what matters least last."""
    lines = [
        ("acknowledged", words.count(difference.acknowledged, "operation")),
        ("found", _found(difference)),
        ("missing", _counted(difference.missing, complete=difference.complete)),
    ]
    if difference.changed:
        lines.append(("there and wrong", _counted(difference.changed)))
    if difference.never_tried:
        lines.append(("never tried", _counted(difference.never_tried)))
    lines += [("the check says", text) for text in check_words(difference)]
    return lines


def difference_sentence(difference: Difference) -> str:
    """The same in one sentence, without the check's words."""
    acknowledged = words.count(difference.acknowledged, "acknowledged operation")
    parts = [f"of {acknowledged} the check misses {_counted(difference.missing)}"]
    if not difference.complete:
        parts = [f"the check did not look at everything: of {acknowledged} some may be missing"]
    if difference.changed:
        parts.append(f"there and wrong: {_counted(difference.changed)}")
    if difference.unacknowledged:
        parts.append(f"there without an ack: {_counted(difference.unacknowledged)}")
    if difference.never_tried:
        parts.append(f"there and never tried: {_counted(difference.never_tried)}")
    return "; ".join(parts)


def check_words(difference: Difference) -> list[str]:
    """The check's own words on what is wrong, the first of them."""
    shown = [_short(text) for text in difference.words[:_WORDS]]
    more = len(difference.words) - len(shown)
    return [*shown, f"and {more} more of its lines"] if more > 0 else shown


def _found(difference: Difference) -> str:
    without = count_in((*difference.unacknowledged, *difference.never_tried))
    text = f"{difference.found:,}"
    if not without:
        return text
    there = difference.found - without
    text += f": {there:,} of these"
    if difference.unacknowledged:
        count = _counted(difference.unacknowledged)
        text += f", and tried without an ack {count}"
    return text


def _counted(spans: Sequence[LsnRange], *, complete: bool = True) -> str:
    if not complete:
        return "not known: the check did not look at everything"
    number = count_in(spans)
    return f"{number:,} (no. {words.ranges(spans, _RANGES)})" if number else "none"


def _short(text: str) -> str:
    return text if len(text) <= _WORDS_WIDTH else f"{text[: _WORDS_WIDTH - 3]}..."
