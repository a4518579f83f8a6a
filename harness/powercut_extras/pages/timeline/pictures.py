# SPDX-License-Identifier: Apache-2.0
"""What the picture of an exploration is drawn from: what is kept of it, with instants on the clock
of the time line.  Bounded; nothing is judged.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from powercut.store.exploration import COLUMNS, ROWS, StateMap
from powercut_extras.pages.timeline.source import Source

_FILES_MAX: Final = 20

Json = dict[str, Any]


@dataclass(frozen=True)
class MinimisedRow:
    """Of one file or place how many writes are missing: in the state that was found, and when no
    more could be put back.
    """

    name: str
    before: int | None
    after: int


def pictures_json(source: Source) -> Json:
    """A map for each exploration that has one, and the audit if there was one."""
    maps = [None if one.map is None else _map(source, one.map) for _, one in source.explored]
    return {
        "columns": COLUMNS,
        "rows": ROWS,
        "maps": maps,
        "audit": None if source.audit is None else source.audit.lanes(source),
    }


def _map(source: Source, drawn: StateMap) -> Json:
    return {
        "begin": drawn.begin - source.start_ns,
        "end": drawn.end - source.start_ns,
        "fields": [
            (one.column, one.row, one.states, one.lossy, one.undecided) for one in drawn.fields
        ],
    }


def minimised(source: Source, start: str) -> list[MinimisedRow]:
    """By file or place what is missing in the state `start` and in the witness found from it; of a
    `start` that is not kept nothing is known.
    """
    known = {shown.name: shown for shown in source.states}
    if source.witness not in known or source.witness == start:
        return []
    after = _missing(source, source.witness)
    before = _missing(source, start) if start in known else None
    lanes = sorted({*after, *(before or ())}, key=lambda lane: (-after[lane], lane))
    names = source.lanes.names
    return [
        MinimisedRow(names[lane], None if before is None else before[lane], after[lane])
        for lane in lanes[:_FILES_MAX]
    ]


def _missing(source: Source, name: str) -> Counter[int]:
    of = source.lanes.of
    state = next(shown.state for shown in source.states if shown.name == name)
    return Counter(of[write] for write in source.missing(state))
