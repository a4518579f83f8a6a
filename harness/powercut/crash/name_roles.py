# SPDX-License-Identifier: Apache-2.0
"""What the names in a captured folder are worth: like names are told as one.

Digits never count: `000012.log` and `000014.log` are one name.  Beyond that

1. a name that many files have had, one after the other (`store`, `CURRENT`), keeps its name, if it
   is one of those that most have had;
2. others are told by what was done with them and by their suffix, if many are alike in that: those
   of mkstemp(3) are new each time, and worth their role.

So there are no more names than roles, however long a program runs.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Final

from powercut.crash.folder_rows import NameChange, Row, SizeChange
from powercut.model.folder import MAKING
from powercut.model.timeline import RequestKind

_NUMBERS: Final = re.compile(r"[0-9a-f]{8,}|[0-9]+")
_NAMES_MAX: Final = 16
_MANY: Final = 8
"""So many files that have had one name, or names that are alike."""


def without_numbers(name: str) -> str:
    """The same for names that differ in numbers alone."""
    return _NUMBERS.sub("#", name)


def name_roles(rows: Iterable[Row]) -> dict[str, str]:
    """What each name is called."""
    objects: dict[str, set[int]] = defaultdict(set)
    calls: dict[str, set[str]] = defaultdict(set)
    made: dict[int, str] = {}
    for row in rows:
        request = row.request
        if isinstance(row.change, NameChange):
            if request.op in MAKING:
                made[request.other] = request.names[0]
            for _, name, number in row.change.entries:
                calls[name].add(f"{request.op.name.lower()}{'' if number else ' gone'}")
                objects[name] |= {number} if number else set()
        elif request.object in made:
            calls[made[request.object]].add(_call(row))
    classes = {name: without_numbers(name) for name in calls}
    return _roles(classes, objects, {name: "/".join(sorted(of)) for name, of in calls.items()})


def _call(row: Row) -> str:
    if row.kind is RequestKind.FLUSH:
        return "sync"
    if row.change is None:
        return row.kind.name.lower()
    return "size" if isinstance(row.change, SizeChange) else "attributes"


def _roles(
    classes: dict[str, str], objects: dict[str, set[int]], calls: dict[str, str]
) -> dict[str, str]:
    had: dict[str, set[int]] = defaultdict(set)
    calls_of: dict[str, str] = {}
    for name, told in classes.items():
        had[told] |= objects[name]
        calls_of[told] = calls[name]
    often = sorted((one for one in had if len(had[one]) >= _MANY), key=lambda one: -len(had[one]))
    roles = {one: one for one in often[:_NAMES_MAX]}
    fresh = [one for one in had if one not in roles]
    for tell in (_by_suffix_and_calls, _by_calls):
        told_as = {one: tell(one, calls_of[one]) for one in fresh}
        alike = Counter(told_as.values())
        told_as = {one: as_ if alike[as_] >= _MANY else one for one, as_ in told_as.items()}
        if len(set(told_as.values())) <= _NAMES_MAX:
            break
    else:
        told_as = dict.fromkeys(fresh, "*")
    roles |= told_as
    return {name: roles[told] for name, told in classes.items()}


def _by_suffix_and_calls(name: str, calls: str) -> str:
    return f"*{''.join(name.rpartition('.')[1:]) if '.' in name else ''} ({calls})"


def _by_calls(name: str, calls: str) -> str:
    del name
    return f"* ({calls})"
