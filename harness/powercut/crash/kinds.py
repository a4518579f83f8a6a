# SPDX-License-Identifier: Apache-2.0
"""What kind of write each write of a recording is, so that like is told from unlike.

No format is known here.  A kind is made of what can be seen from outside:

1. of a captured disk: the role of the place (one of the few places that are written most often, one
   that is written again, a new one; whether it continues one of the last writes), the tag with
   which the bytes begin if other writes begin with the same (journal blocks, log records and tree
   nodes have magic numbers), the size in atomic units, FUA, and how the file system calls the
   place if that is known (`Names`);
2. of a captured folder: the call (append, overwrite, growth, truncation, creation, rename, ...) and
   the file by the role of its name: `000012.log` and `000014.log` are
   alike, and `000013.log` is told from them, as it was made in between.

A kind belongs to `families`, which are larger: all contents, all names, all of one file.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, overload

import numpy as np
import numpy.typing as npt

from powercut.crash.arrays import I64, sorted_unique
from powercut.crash.folder import FolderSpace
from powercut.crash.folder_ranges import is_ranged
from powercut.crash.folder_rows import AttributeChange, NameChange, Row, SizeChange
from powercut.crash.states import StateSpace
from powercut.model.folder import MAKING, ROOT_OBJECT
from powercut.model.timeline import RequestKind

Mask = npt.NDArray[np.bool_]
Names = Callable[[int], str]
"""What a file system calls the place of a write; empty if it is not known."""

_OFTEN: Final = 4
_PLACES_MAX: Final = 8
_TAGS_MAX: Final = 12
_TAG_BYTES: Final = 8
_ENDS_MAX: Final = 8
_FLUSH: Final = int(RequestKind.FLUSH)
_KINDS: Final = max(RequestKind) + 1
_SIZES: Final = ("one unit", "few units", "many units")
_STEP: Final = _TAG_BYTES + 1
_MASKS: Final = np.array(
    [2**64 - 2 ** (64 - 8 * size) for size in range(_TAG_BYTES + 1)], dtype=np.uint64
)


@dataclass(frozen=True, order=True)
class Kind:
    """What writes that are alike have in common."""

    name: str
    families: tuple[str, ...] = ()


FLUSH: Final = Kind("flush")


class Kinds(Sequence[Kind]):
    """The kind of each request: of `names`, which are sorted, the one at its `rank`."""

    def __init__(self, kinds: Sequence[Kind], of_request: I64) -> None:
        """`of_request` says which of `kinds` each request has; some kinds may be equal."""
        self.names: tuple[Kind, ...] = tuple(
            sorted({kinds[at] for at in sorted_unique(of_request).tolist()})
        )
        ranks = {kind: rank for rank, kind in enumerate(self.names)}
        of_kind = np.array([ranks.get(kind, -1) for kind in kinds], dtype=np.int64)
        self.rank = of_kind[of_request]

    def __len__(self) -> int:
        return len(self.rank)

    @overload
    def __getitem__(self, at: int) -> Kind: ...

    @overload
    def __getitem__(self, at: slice) -> list[Kind]: ...

    def __getitem__(self, at: int | slice) -> Kind | list[Kind]:
        if isinstance(at, slice):
            return [self.names[rank] for rank in self.rank[at].tolist()]
        return self.names[int(self.rank[at])]


def kinds_of(space: StateSpace, names: Names | None = None) -> Kinds:
    """The kind of each request of the recording, in the order of their submission."""
    if isinstance(space, FolderSpace):
        kinds = _of_folder(space)
        return Kinds(kinds, np.arange(len(kinds)))
    return _of_disk(space, names)


# --- a disk ------------------------------------------------------------------------------------


def _of_disk(space: StateSpace, names: Names | None) -> Kinds:
    requests = space.timeline.requests
    writes = np.flatnonzero(requests.kind != _FLUSH)
    _, places = _numbered(space.begin)
    called, words = _roles(space, writes, places)
    if names is not None:
        called, words = _with_names(called, words, writes, names)
    tag, tags = _tags(space, places)
    units = (space.end[writes] - 1) // space.unit - space.begin[writes] // space.unit + 1
    size = np.where(units == 1, 0, np.where(units < _OFTEN * 2, 1, 2))
    code = called * len(tags) + tag[writes]
    code = (code * len(_SIZES) + size) * 2 + requests.fua[writes]
    code = code * _KINDS + requests.kind[writes]
    _, first, number = np.unique(code, return_index=True, return_inverse=True)
    kinds = [FLUSH]
    for at in first.tolist():
        kinds.append(
            _of_write(
                words[called[at]],
                tags[tag[writes[at]]],
                int(requests.kind[writes[at]]),
                _SIZES[size[at]],
                bool(requests.fua[writes[at]]),
            )
        )
    of_request = np.zeros(len(requests.kind), dtype=np.int64)
    of_request[writes] = 1 + number.reshape(-1)
    return Kinds(kinds, of_request)


def _of_write(called: str, tag: str, what: int, size: str, fua: bool) -> Kind:
    parts = [called, tag, size, "FUA" if fua else ""]
    text = ", ".join(part for part in parts if part)
    return Kind(f"{RequestKind(what).name.lower()} ({text})", (called,))


def _size(units: int) -> int:
    return 0 if units == 1 else 1 if units < _OFTEN * 2 else 2


def _roles(space: StateSpace, writes: I64, all_places: I64) -> tuple[I64, list[str]]:
    """What role the place of each of `writes` has, and how each role is called."""
    place, count = all_places[writes], int(all_places.max(initial=-1)) + 1
    busy = _busy_places(all_places[space.sets.is_write], count)
    first = np.zeros(count, dtype=np.int64)
    first[place[::-1]] = np.arange(len(writes))[::-1]
    role = np.ones(len(writes), dtype=np.int64)
    role[first[place]] = 0
    words = ["new", "again"]
    of_place = np.full(count, -1, dtype=np.int64)
    for rank, at in enumerate(busy, 1):
        of_place[at] = len(words)
        words.append(f"place {rank}")
    role = np.where(of_place[place] >= 0, of_place[place], role)
    continued = _continued(space.begin[writes].tolist(), space.end[writes].tolist())
    words += [f"{word}, continued" for word in words]
    return np.where(continued, role + len(words) // 2, role), words


def _continued(begins: list[int], ends: list[int]) -> Mask:
    """Of each write whether it begins where one of the last has ended."""
    last: dict[int, None] = {}
    found = bytearray(len(begins))
    for at, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        if begin in last:
            found[at] = 1
            del last[begin]
        if end not in last:
            last[end] = None
            if len(last) > _ENDS_MAX:
                del last[next(iter(last))]
    return np.frombuffer(found, dtype=np.bool_)


def _with_names(called: I64, words: list[str], writes: I64, names: Names) -> tuple[I64, list[str]]:
    """The same, where the file system calls the place of a write as it does."""
    known: dict[str, int] = {}
    words = [*words]
    called = called.copy()
    for at, write in enumerate(writes.tolist()):
        name = names(write)
        if name not in known:
            known[name] = len(words)
            words.append(without_numbers(name))
        if words[known[name]]:
            called[at] = known[name]
    return called, words


def _busy_places(places: I64, count: int) -> list[int]:
    """The few that are written most often, each a role of its own; `places` are those of writes."""
    times = np.bincount(places, minlength=count)
    order = np.argsort(-times, kind="stable")[:_PLACES_MAX]
    return sorted(at for at in order.tolist() if times[at] >= _OFTEN)


def _tags(space: StateSpace, places: I64) -> tuple[I64, list[str]]:
    """With which bytes each write begins, if other writes, to other places, begin with the same:
    for each request which of the tags it has; the first of them is none.
    """
    tag = np.zeros(len(places), dtype=np.int64)
    tags = [""]
    left = np.flatnonzero(space.timeline.requests.data_offset >= 0)
    heads, sizes = _heads(space, left)
    for length in (_TAG_BYTES, _TAG_BYTES // 2):
        size = np.minimum(sizes, length)
        head = heads & _MASKS[size]
        some = np.flatnonzero(head)
        values, number = _numbered(head[some])
        seen, number = _numbered(number * _STEP + size[some])
        pairs = sorted_unique(number * len(places) + places[left[some]])
        often = [
            (-many, int(values[one // _STEP]).to_bytes(_TAG_BYTES)[: one % _STEP], at)
            for at, (one, many) in enumerate(
                zip(seen.tolist(), np.bincount(pairs // len(places)).tolist(), strict=True)
            )
            if many >= _OFTEN
        ]
        of_head = np.zeros(len(seen), dtype=np.int64)
        for _, text, at in sorted(often)[:_TAGS_MAX]:
            of_head[at] = len(tags)
            tags.append(text.hex())
        tag[left[some]] = of_head[number]
        untold = tag[left] == 0
        left, heads, sizes = left[untold], heads[untold], sizes[untold]
    return tag, tags


def _numbered(values: Any) -> tuple[Any, I64]:
    """The different values, rising, and for each value which of these it is."""
    seen, number = np.unique(values, return_inverse=True)
    return seen, number.reshape(-1)


def _heads(space: StateSpace, writes: I64) -> tuple[npt.NDArray[np.uint64], I64]:
    """The first bytes that each of `writes` carries, as a number from its largest digit on; and how
    many bytes these are.
    """
    requests = space.timeline.requests
    data = np.asarray(space.timeline.data).view(np.ndarray)
    begins = requests.data_offset[writes]
    sizes = np.minimum(np.minimum(requests.length[writes], len(data) - begins), _TAG_BYTES)
    sizes = np.maximum(sizes, 0)
    heads = np.zeros(len(writes), dtype=np.uint64)
    for at in range(_TAG_BYTES):
        there = np.flatnonzero(sizes > at)
        byte = data[begins[there] + at].astype(np.uint64)
        heads[there] |= byte << np.uint64(8 * (_TAG_BYTES - 1 - at))
    return heads, sizes


# --- a folder ----------------------------------------------------------------------------------


def _of_folder(space: FolderSpace) -> list[Kind]:
    roles = name_roles(space.rows)
    files = _files(space, roles)
    ends: dict[int, int] = defaultdict(int)
    kinds = []
    for row in space.rows:
        if row.kind is RequestKind.FLUSH:
            part = "a part of " if is_ranged(row.request) else ""
            kinds.append(Kind(f"sync of {part}{files[row.request.object]}"))
            continue
        units = 1 if row.change is not None else space.touched_units(len(kinds))
        kinds.append(_of_row(row, roles, files, ends, units))
    return kinds


def _of_row(
    row: Row, roles: dict[str, str], files: dict[int, str], ends: dict[int, int], units: int
) -> Kind:
    request = row.request
    match row.change:
        case NameChange(entries):
            call = request.op.name.lower()
            named = ", ".join(
                dict.fromkeys(
                    f"{roles[name]}{' gone' if number is None else ''}"
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
    return Kind(f"{verb} of {called}, {_SIZES[_size(units)]}", ("contents", called))


def _files(space: FolderSpace, roles: dict[str, str]) -> dict[int, str]:
    called = {
        row.request.other: roles[row.request.names[0]]
        for row in space.rows
        if row.request.op in MAKING
    }
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


# What the names in a captured folder are worth: like names are told as one.
#
# Digits never count: `000012.log` and `000014.log` are one name.  Beyond that
#
# 1. a name that many files have had, one after the other (`store`, `CURRENT`), keeps its name, if
# it    is one of those that most have had; 2. others are told by what was done with them and by
# their suffix, if many are alike in that: those    of mkstemp(3) are new each time, and worth their
# role.
#
# So there are no more names than roles, however long a program runs.

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
    return _roles_of_names(
        classes, objects, {name: "/".join(sorted(of)) for name, of in calls.items()}
    )


def _call(row: Row) -> str:
    if row.kind is RequestKind.FLUSH:
        return "sync"
    if row.change is None:
        return row.kind.name.lower()
    return "size" if isinstance(row.change, SizeChange) else "attributes"


def _roles_of_names(
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
