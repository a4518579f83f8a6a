# SPDX-License-Identifier: Apache-2.0
"""What the pictures of an exploration and of an audit are drawn from: what is kept of them, with
instants on the clock of the time line.  Bounded; nothing is judged.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from powercut.crash.arrays import I64
from powercut.store.state_map import COLUMNS, ROWS, StateMap
from powercut.timeline.source import Source
from powercut_extras.audit.stored import Audit, AuditedPromise, Worth

MARKS_MAX: Final = 1200
"""Promises that are drawn one by one; of more only columns are."""

AUDIT_COLUMNS: Final = 320
LAST: Final = AUDIT_COLUMNS - 1
_ACKS_MAX: Final = 12
_FILES_MAX: Final = 20

WORTHS: Final = tuple(Worth)

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
        "audit": None if source.audit is None else _audit(source, source.audit),
    }


def _map(source: Source, drawn: StateMap) -> Json:
    return {
        "begin": drawn.begin - source.start_ns,
        "end": drawn.end - source.start_ns,
        "fields": [
            (one.column, one.row, one.states, one.lossy, one.undecided) for one in drawn.fields
        ],
    }


def _audit(source: Source, audit: Audit) -> Json:
    sites = audit.askers
    few = len(audit.promises) <= MARKS_MAX
    submitted = source.space.sets.submitted_ns - source.start_ns
    column = np.clip(submitted * AUDIT_COLUMNS // (source.end_ns - source.start_ns), 0, LAST)
    by_number = np.argsort(source.acks.number, kind="stable")
    lanes = []
    for worth in WORTHS:
        of = audit.of(worth)
        if of:
            counts = Counter(int(column[one.request]) for one in of)
            lanes.append(
                {
                    "worth": worth.value,
                    "needed": of[0].needed,
                    "count": len(of),
                    "columns": sorted(counts.items()),
                    "marks": [_mark(source, one, sites, by_number) for one in of] if few else [],
                }
            )
    return {"counted": audit.counted, "columns": AUDIT_COLUMNS, "lanes": lanes}


def _mark(
    source: Source, one: AuditedPromise, sites: dict[int, str], by_number: I64
) -> tuple[int, int, str, list[int]]:
    """When it was submitted and when completed, in words what it is, and what it carries."""
    space, acks = source.space, source.acks
    submitted = int(space.sets.submitted_ns[one.request]) - source.start_ns
    done = min(int(space.completed_ns[one.request]), source.end_ns) - source.start_ns
    told = [f"{one.kind.value} {one.request}: {one.worth.value}"]
    if one.hanging:
        writes = "write" if one.hanging == 1 else "writes"
        told.append(f"made {one.hanging:,} {writes} durable ({', '.join(one.holds)})")
    if one.sites:
        told.append(", ".join(sites.get(number, "?") for number in one.sites[:2]))
    if one.lsns:
        more = ", ..." if len(one.lsns) > 3 else ""
        told.append("without it lost: " + ", ".join(map(str, one.lsns[:3])) + more)
    numbers, carried = acks.number[by_number], list[int]()
    for span in one.lsns[:_ACKS_MAX]:
        first, last = np.searchsorted(numbers, [span.first, span.last + 1])
        carried += acks.at_ns[by_number[first:last][:_ACKS_MAX]].tolist()
    return submitted, done, "; ".join(told), [at - source.start_ns for at in carried[:_ACKS_MAX]]


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
