# SPDX-License-Identifier: Apache-2.0
"""tests/UNSTEADY: what has needed a second hearing (.ci/run), since when, and what is known of it.

One line a test: the day, the node id, the cause.  An entry goes when its cause is mended.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

LIST = Path(__file__).parents[1] / "UNSTEADY"
PATIENCE = timedelta(days=14)


@dataclass(frozen=True)
class Unsteady:
    """A test that failed and then passed three times alone."""

    day: date
    test: str
    cause: str


def entries() -> list[Unsteady]:
    """Those in the list.  Raises ValueError for a line that is none."""
    lines = (line for line in LIST.read_text().splitlines() if line and not line.startswith("#"))
    return [
        Unsteady(date.fromisoformat(day), test, cause)
        for day, test, cause in (line.split(maxsplit=2) for line in lines)
    ]


def old(today: date) -> list[str]:
    """The entries that have waited for longer than they should, as they stand in the list."""
    late = (one for one in entries() if today - one.day > PATIENCE)
    return [f"{one.day} {one.test} {one.cause}" for one in late]
