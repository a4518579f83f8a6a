# SPDX-License-Identifier: Apache-2.0
"""What kind of write each write of a recording is, so that like is told from unlike.

No format is known here.  A kind is made of what can be seen from outside:

1. of a captured disk: the role of the place (one of the few places that are written most often, one
   that is written again, a new one; whether it continues one of the last writes), the tag with
   which the bytes begin if other writes begin with the same (journal blocks, log records and tree
   nodes have magic numbers), the size in atomic units, FUA, and how the file system calls the
   place if that is known (`Names`);
2. of a captured folder: the call (append, overwrite, growth, truncation, creation, rename, ...) and
   the file by its name, in which digits do not count: `000012.log` and `000014.log` are alike, and
   `000013.log` is told from them, as it was made in between.

A kind belongs to `families`, which are larger: all contents, all names, all of one file.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from powercut.crash.folder import FolderSpace
from powercut.crash.folder_rows import AttributeChange, NameChange, Row, SizeChange
from powercut.crash.states import StateSpace
from powercut.model.folder import MAKING, ROOT_OBJECT
from powercut.model.timeline import RequestKind

Names = Callable[[int], str]
"""What a file system calls the place of a write; empty if it is not known."""

_OFTEN: Final = 4
_PLACES_MAX: Final = 8
_TAGS_MAX: Final = 12
_TAG_BYTES: Final = 8
_ENDS_MAX: Final = 8
_FLUSH: Final = int(RequestKind.FLUSH)
_FILES_MAX: Final = 16
_NUMBERS: Final = re.compile(r"[0-9a-f]{8,}|[0-9]+")


@dataclass(frozen=True, order=True)
class Kind:
    """What writes that are alike have in common."""

    name: str
    families: tuple[str, ...] = ()


FLUSH: Final = Kind("flush")


def kinds_of(space: StateSpace, names: Names | None = None) -> list[Kind]:
    """The kind of each request of the recording, in the order of their submission."""
    if isinstance(space, FolderSpace):
        return _of_folder(space)
    return _of_disk(space, names)


# --- a disk ------------------------------------------------------------------------------------


def _of_disk(space: StateSpace, names: Names | None) -> list[Kind]:
    requests = space.timeline.requests
    places = _busy_places(space)
    tags = _tags(space)
    seen: set[int] = set()
    ends: dict[int, None] = {}
    kinds = []
    known: dict[tuple[str, str, int, str, bool], Kind] = {}  # few
    units = (space.end - 1) // space.unit - space.begin // space.unit + 1
    rows = (requests.kind, space.begin, space.end, units, requests.fua)
    for index, (what, begin, end, size, fua) in enumerate(
        zip(*(row.tolist() for row in rows), strict=True)
    ):
        if what == _FLUSH:
            kinds.append(FLUSH)
            continue
        role = "again" if begin in seen else "new"
        if begin in places:
            role = f"place {places[begin]}"
        if begin in ends:
            role += ", continued"
        seen.add(begin)
        ends.pop(begin, None)
        ends[end] = None
        if len(ends) > _ENDS_MAX:
            del ends[next(iter(ends))]
        called = "" if names is None else _NUMBERS.sub("#", names(index))
        key = called or role, tags.get(index, ""), what, _size(size), fua
        if key not in known:
            known[key] = _of_write(*key)
        kinds.append(known[key])
    return kinds


def _of_write(called: str, tag: str, what: int, size: str, fua: bool) -> Kind:
    parts = [called, tag, size, "FUA" if fua else ""]
    text = ", ".join(part for part in parts if part)
    return Kind(f"{RequestKind(what).name.lower()} ({text})", (called,))


def _busy_places(space: StateSpace) -> dict[int, int]:
    """The few places that are written most often, each a role of its own, by offset."""
    begins = space.begin[space.sets.is_write]
    offsets, counts = np.unique(begins, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_PLACES_MAX]
    busy = [int(offsets[at]) for at in order if counts[at] >= _OFTEN]
    return {offset: rank for rank, offset in enumerate(sorted(busy), 1)}


def _tags(space: StateSpace) -> dict[int, str]:
    """Of each write the first bytes, if other writes, to other places, begin with the same."""
    requests = space.timeline.requests
    data = np.asarray(space.timeline.data).view(np.ndarray)  # slices of a map are slow
    carry = np.flatnonzero(requests.data_offset >= 0)
    begins = requests.data_offset[carry]
    ends = begins + np.minimum(requests.length[carry], _TAG_BYTES)
    heads = {
        index: data[begin:end].tobytes()
        for index, begin, end in zip(carry.tolist(), begins.tolist(), ends.tolist(), strict=True)
    }
    found: dict[int, str] = {}
    for length in (_TAG_BYTES, _TAG_BYTES // 2):
        places = defaultdict(set)
        for index, head in heads.items():
            if index not in found and any(head[:length]):
                places[head[:length]].add(int(space.begin[index]))
        common = sorted(places, key=lambda head: (-len(places[head]), head))[:_TAGS_MAX]
        tags = {head: head.hex() for head in common if len(places[head]) >= _OFTEN}
        found |= {
            index: tags[head[:length]]
            for index, head in heads.items()
            if index not in found and head[:length] in tags
        }
    return found


def _size(units: int) -> str:
    return "one unit" if units == 1 else "few units" if units < _OFTEN * 2 else "many units"


# --- a folder ----------------------------------------------------------------------------------


def _of_folder(space: FolderSpace) -> list[Kind]:
    files = _files(space)
    ends: dict[int, int] = defaultdict(int)
    kinds = []
    for row in space.rows:
        if row.kind is RequestKind.FLUSH:
            kinds.append(Kind(f"sync of {files[row.request.object]}"))
            continue
        units = 1 if row.change is not None else space.touched_units(len(kinds))
        kinds.append(_of_row(row, files, ends, units))
    return kinds


def _of_row(row: Row, files: dict[int, str], ends: dict[int, int], units: int) -> Kind:
    request = row.request
    match row.change:
        case NameChange(entries):
            call = request.op.name.lower()
            named = ", ".join(
                dict.fromkeys(
                    f"{_class(name)}{' gone' if number is None else ''}"
                    for _, name, number in entries
                )
            )
            return Kind(f"{call} ({named})", ("names",))
        case SizeChange(file, size, at_least):
            what = "growth" if at_least else "truncation" if size else "truncation to nothing"
            return Kind(f"{what} of {files[file]}", ("sizes", files[file]))
        case AttributeChange(number):
            return Kind(f"attributes of {files[number]}", ("attributes", files[number]))
    end, called = ends[request.object], files[request.object]
    if row.kind is RequestKind.ZERO:
        verb = "zeroing"
    elif request.offset >= end:
        verb = "append"
    else:
        verb = "overwriting the beginning" if request.offset == 0 else "overwriting"
    ends[request.object] = max(end, request.offset + request.length)
    return Kind(f"{verb} of {called}, {_size(units)}", ("contents", called))


def _files(space: FolderSpace) -> dict[int, str]:
    """What each file is called: by the name that it was made with."""
    names = {
        row.request.other: row.request.names[0] for row in space.rows if row.request.op in MAKING
    }
    for shorten in (_class, _suffix):
        called = {number: shorten(name) for number, name in names.items()}
        if len(Counter(called.values())) <= _FILES_MAX:
            break
    else:
        called = dict.fromkeys(names, "a file")
    result: dict[int, str] = defaultdict(lambda: "everything", _in_turn(called))
    result[ROOT_OBJECT] = "the folder"
    return result


def _in_turn(called: dict[int, str]) -> dict[int, str]:
    """Of files with one name the first, third, fifth ... are one kind, and the others another: so
    the last one that was made is told from the one before.
    """
    many = Counter(called.values())
    made: Counter[str] = Counter()
    told = {}
    for number, name in sorted(called.items()):
        made[name] += 1
        turn = " (in turn)" if made[name] % 2 == 0 else ""
        told[number] = name + (turn if many[name] > 1 else "")
    return told


def _class(name: str) -> str:
    return _NUMBERS.sub("#", name)


def _suffix(name: str) -> str:
    return "*" + "".join(name.rpartition(".")[1:]) if "." in name else "*"
