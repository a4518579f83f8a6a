# SPDX-License-Identifier: Apache-2.0
"""What a page draws a time line from, as JSON.

A recording may hold any number of requests; what is made here does not: all of it is counted in
`BUCKETS` columns, and single requests are listed for a window of it, `REQUESTS_MAX` at most.
Instants are nanoseconds since the program was ready (or its first attempt), so that a script
can calculate with them exactly.  Which write is durable when is decided here, by the one model;
a script compares instants and nothing else.
"""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any, Final

import numpy as np

from powercut.crash.arrays import I64
from powercut.crash.states import Move
from powercut.model.errors import PowercutError
from powercut.model.units import NEVER
from powercut.model.verdict import Difference
from powercut.paths import command, from_here
from powercut.witness.search import Drop, items_of
from powercut_extras.pages.timeline.inside import Inside
from powercut_extras.pages.timeline.names import FileRow
from powercut_extras.pages.timeline.pictures import pictures_json
from powercut_extras.pages.timeline.source import Shown, Source

BUCKETS: Final = 320
REQUESTS_MAX: Final = 4000
"""Requests that a window lists one by one; as many acks."""

_MISSING_MAX: Final = 60
_FILES_MAX: Final = 60
_WINDOWS_MAX: Final = 8

Json = dict[str, Any]
Tell = Callable[[Difference], list[tuple[str, str]]]


def timeline_json(source: Source, tell: Tell) -> Json:
    """All that a page needs, and of single requests those around its states; `tell` has the words
    for what a check found.
    """
    data: Json = {
        "format": "powercut-timeline/1",
        "quoted": quoted(source.path),
        "powercut": command(),
        "noun": source.noun,
        "names": source.names_of_acks,
        "imported": source.imported,
        "mounts": source.inside is not None,
        "span": source.end_ns - source.start_ns,
        "start": source.start_ns,
        "recognised": source.acks.exposed_ns is not None,
        "requests": len(source.lanes.of),
        "lanes": _drawn(source),
        "acks": _columns(source, source.acks.at_ns),
        "node_cuts": [(at - source.start_ns, name) for at, name in source.node_cuts],
        "exposed": _exposed_columns(source),
        "counts": _counts(source),
        "problems": list(source.problems),
        "witness": source.witness,
        "states": [_state(source, shown, tell) for shown in source.states],
    }
    data["windows"] = _windows(source)
    data["pictures"] = pictures_json(source)
    return data


def window_json(source: Source, begin: int, end: int) -> Json:
    """The requests of one window; `begin` and `end` as in `timeline_json`."""
    return _window(source, begin, end, REQUESTS_MAX)


def inside_json(inside: Inside, name: str) -> Json:
    """The files of a state that is mounted for it; `problem` says why there are none."""
    try:
        files = inside.files(name)
    except PowercutError as error:
        return {"problem": str(error), "files": [], "left_off": 0}
    changed = sorted(
        files, key=lambda one: (one.size == one.whole and one.differs is None, one.path)
    )
    return {
        "problem": "",
        "files": _rows(changed),
        "left_off": max(len(files) - _FILES_MAX, 0),
    }


def _rows(files: Sequence[FileRow]) -> list[tuple[Any, ...]]:
    """Path, size, size with nothing missing, and of what differs: at which byte, both sides."""
    return [
        (one.path, one.size, one.whole, None if one.differs is None else astuple(one.differs))
        for one in files[:_FILES_MAX]
    ]


def embedded(data: Json) -> str:
    """JSON that can stand in a <script> element: it holds nothing that HTML could read."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def quoted(path: Path) -> str:
    """A recording as it is typed."""
    return shlex.quote(str(from_here(path)))


def _drawn(source: Source) -> list[Json]:
    """Of each lane its name and its columns."""
    lanes = source.lanes
    of = np.array(lanes.of, dtype=np.int64)
    submitted = source.space.sets.submitted_ns
    return [
        {
            "name": name,
            "flush": lane in lanes.flushes,
            "count": int((of == lane).sum()),
            "columns": _columns(source, submitted[of == lane]),
        }
        for lane, name in enumerate(lanes.names)
    ]


def _columns(source: Source, instants: I64) -> list[tuple[int, int]]:
    """How many of `instants` fall into each column that has any."""
    span = source.end_ns - source.start_ns
    inside = instants[(instants >= source.start_ns) & (instants <= source.end_ns)]
    column = np.minimum((inside - source.start_ns) * BUCKETS // span, BUCKETS - 1)
    counts = np.bincount(column, minlength=BUCKETS)
    return [(index, int(counts[index])) for index in np.flatnonzero(counts).tolist()]


def _exposed_columns(source: Source) -> list[tuple[int, int]]:
    exposed = source.acks.exposed_ns
    return [] if exposed is None else _columns(source, source.acks.at_ns[exposed > 0])


def _counts(source: Source) -> list[tuple[int, int, int]]:
    """At each border of a column: writes issued, writes durable, acks."""
    sets = source.space.sets
    span = source.end_ns - source.start_ns
    at = source.start_ns + np.arange(BUCKETS + 1, dtype=np.int64) * span // BUCKETS
    columns = (
        np.searchsorted(sets.submitted_ns[sets.is_write], at, side="left"),
        np.searchsorted(np.sort(sets.durable_ns[sets.is_write]), at, side="left"),
        np.searchsorted(source.acks.at_ns, at, side="left"),
    )
    return [tuple(int(n) for n in row) for row in zip(*columns, strict=True)]  # type: ignore[misc]


def _windows(source: Source) -> list[Json]:
    """The whole if it is short enough; else what is around the states, and before the cut."""
    span = source.end_ns - source.start_ns
    whole = _window(source, 0, span, REQUESTS_MAX)
    if not whole["left_off"]:
        return [whole]
    instants = [source.end_ns, *(shown.state.instant for shown in source.states)]
    width = max(span // BUCKETS, 1)
    found = []
    for instant in [*dict.fromkeys(instants)][:_WINDOWS_MAX]:
        at = min(max(instant - source.start_ns, 0), span)
        begin, end = max(at - width, 0), min(at + width, span)
        found.append(_window(source, begin, end, REQUESTS_MAX // _WINDOWS_MAX))
    return found


def _window(source: Source, begin: int, end: int, most: int) -> Json:
    """What is issued in a window, or not durable at its begin; of too many the last."""
    sets, requests = source.space.sets, source.space.timeline.requests
    low, high = source.start_ns + begin, source.start_ns + end
    done = source.space.completed_ns
    open_at = np.where(sets.is_write, sets.durable_ns, done)
    wanted = np.flatnonzero((sets.submitted_ns < high) & (open_at >= low))
    writes_before = sets.is_write & (sets.submitted_ns < low)
    shown = wanted[-most:]
    acks = source.acks
    first, last = (int(np.searchsorted(acks.at_ns, at, side="left")) for at in (low, high + 1))
    listed = range(max(first, last - most), last)
    of = source.lanes.of

    def since(at: int) -> int | None:
        return None if at == NEVER else at - source.start_ns

    return {
        "begin": begin,
        "end": end,
        "left_off": len(wanted) - len(shown),
        "acks_left_off": (last - first) - len(listed),
        "issued": int(writes_before.sum()),
        "durable": int((sets.is_write & (sets.durable_ns < low)).sum()),
        "acked": first,
        "requests": [
            (
                index,
                of[index],
                int(requests.kind[index]),
                int(requests.fua[index]),
                int(sets.submitted_ns[index]) - source.start_ns,
                since(int(done[index])),
                since(int(sets.durable_ns[index])),
                int(requests.length[index]),
                source.names.told(index),
            )
            for index in shown.tolist()
        ],
        "acks": [
            (
                int(acks.at_ns[index]) - source.start_ns,
                int(acks.number[index]),
                None if acks.exposed_ns is None else int(acks.exposed_ns[index]),
            )
            for index in listed
        ],
    }


def _state(source: Source, shown: Shown, tell: Tell) -> Json:
    """A state: what it lacks by file, what was found in it, its files, and what to type."""
    state, finding, example = shown.state, shown.finding, shown.example
    items = items_of(source.space, state)
    drops = [item for item in items if isinstance(item, Drop)]
    of = source.lanes.of
    missing: dict[int, int] = defaultdict(int)
    for write in {drop.write for drop in drops}:
        missing[of[write]] += 1
    told = source.names.missing(state, drops[:_MISSING_MAX])
    difference = None if example is None else example.difference
    files = source.names.files(state)
    here, powercut = quoted(source.path), command()
    verbs = [("look inside", "shell"), ("fewest missing writes", "minimize")]
    return {
        "name": shown.name,
        "instant": state.instant - source.start_ns,
        "policy": state.policy,
        "kind": "" if finding is None else finding.kind.value,
        "verdict": "" if finding is None else finding.verdict.name,
        "message": "" if example is None else example.message,
        "lost": [] if example is None else [(one.first, one.last) for one in example.lsns][:200],
        "confirmed": "" if example is None else example.confirmed,
        "found": [] if difference is None else tell(difference),
        "volatile": len(source.space.volatile(state.instant)),
        "again": state.again is not None,
        "moved": sum(isinstance(item, Move) for item in items),
        "lanes": sorted(missing.items()),
        "lacks": len({drop.write for drop in drops}),
        "drops": sorted({drop.write for drop in drops})[-REQUESTS_MAX:],
        "left_off": max(len(drops) - _MISSING_MAX, 0),
        "missing": [
            (drop.write, of[drop.write], text, why)
            for drop, (text, why) in zip(drops, told, strict=False)
        ],
        "files": _rows(files),
        "files_left_off": max(len(files) - _FILES_MAX, 0),
        "commands": [
            (purpose, f"{powercut} {verb} {here} {shown.name}")
            for purpose, verb in verbs
            if verb == "shell" or finding is not None
        ],
    }
