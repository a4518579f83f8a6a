# SPDX-License-Identifier: Apache-2.0
"""A captured folder's requests as rows of one timeline (the model is in powercut.crash.folder).

A write that makes its file longer is two rows: the bytes, and the size.  So is a truncation to a
size within a block: the zeroes at the end of that block, and the size.  A write of which a sync
covers a part is as many writes.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

from powercut.crash.folder_ranges import ANYWHERE, pieces
from powercut.model.folder import (
    MAKING,
    NAMING,
    Attributes,
    FolderOp,
    FolderRequest,
    FolderTimeline,
)
from powercut.model.timeline import RequestKind

REGION: Final = 1 << 44
"""Bytes of the space that each object has in the timeline of all: file 7's bytes begin at 7 times
that.  In the region of number 0 each change of a size or of names has a cell."""

_CELL: Final = 4096

_BLOCK: Final = 4096
"""Bytes of a block of the file system: the end of the last one that a truncation leaves is zeroed
in place, as contents are, and its place on the disk stays the file's."""


class Promise(enum.Enum):
    """What is promised of names, see above."""

    POSIX = "posix"
    JOURNAL = "journal"


@dataclass(frozen=True)
class SizeChange:
    """A file's new size; with `at_least` it only grows to that."""

    file: int
    size: int
    at_least: bool


@dataclass(frozen=True)
class NameChange:
    """Entries of one or two folders: (folder, name, object), the object None for no entry."""

    entries: tuple[tuple[int, str, int | None], ...]
    concerns: frozenset[int]
    made: int | None = None


@dataclass(frozen=True)
class AttributeChange:
    """Other attributes of a file or a folder."""

    object: int
    attributes: Attributes


Change = SizeChange | NameChange | AttributeChange


@dataclass(frozen=True)
class Row:
    """A request of the timeline of all.  `change` is None for the contents of a file."""

    request: FolderRequest
    kind: RequestKind
    offset: int
    length: int
    change: Change | None = None


@dataclass
class Namespace:
    """The folder as the program sees it, to know what a name leads to."""

    entries: dict[tuple[int, str], int] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def apply(self, change: NameChange) -> NameChange:
        """Follows it, and gives it back."""
        for parent, name, number in change.entries:
            self.entries.pop((parent, name), None)
            if number is not None:
                self.entries[parent, name] = number
        return change


def folder_rows(folder: FolderTimeline, promise: Promise) -> list[Row]:
    """All rows, in the order of their submission."""
    rows: list[Row] = []
    live = Namespace()
    cells = 0

    def add(request: FolderRequest, change: Change) -> None:
        nonlocal cells
        rows.append(Row(request, RequestKind.ZERO, cells * _CELL, _CELL, change))
        cells += 1

    for request in pieces(folder.requests):
        at = request.object * REGION + request.offset
        if request.op in NAMING:
            for name_change in name_changes(request, live, promise):
                add(request, name_change)
        elif request.op is FolderOp.FLUSH:
            rows.append(Row(request, RequestKind.FLUSH, 0, 0))
        elif request.op is FolderOp.ZERO:
            rows.append(Row(request, RequestKind.ZERO, at, request.length))
        elif request.op is FolderOp.WRITE:
            rows.append(Row(request, RequestKind.WRITE, at, request.length))
            end = request.offset + request.length
            if end > live.sizes[request.object]:
                live.sizes[request.object] = end
                add(request, SizeChange(request.object, end, at_least=True))
        elif request.attributes is not None:
            if not request.born:
                add(request, AttributeChange(request.object, request.attributes))
        else:
            tail = min(block_end(request.size), live.sizes[request.object]) - request.size
            if request.op is FolderOp.TRUNCATE and tail > 0:
                begin = request.object * REGION + request.size
                rows.append(Row(request, RequestKind.ZERO, begin, tail))
            live.sizes[request.object] = request.size
            grows = request.op is FolderOp.GROW
            add(request, SizeChange(request.object, request.size, at_least=grows))
    return rows


def name_changes(request: FolderRequest, live: Namespace, promise: Promise) -> list[NameChange]:
    """What a call changes, which `live` follows."""
    parent, name = request.object, request.names[0]
    if request.op in MAKING or request.op is FolderOp.LINK:
        made = request.other if request.op in MAKING else None
        change = NameChange(
            ((parent, name, request.other),), frozenset({parent, request.other}), made
        )
        return [live.apply(change)]
    old = live.entries.get((parent, name))
    concerned = {parent} | ({old} if old is not None else set())
    if request.op is not FolderOp.RENAME:
        return [live.apply(NameChange(((parent, name, None),), frozenset(concerned)))]
    to, new_name = request.other, request.names[1]
    replaced = live.entries.get((to, new_name))
    concerned |= {to} | ({replaced} if replaced is not None else set())
    come = (to, new_name, old)
    gone = (parent, name, replaced if request.exchange else None)
    if old is not None and old == replaced:  # two names of one file: nothing is done
        return []
    if promise is Promise.POSIX and to != parent:
        changes = [NameChange((come,), frozenset({to})), NameChange((gone,), frozenset({parent}))]
    else:
        changes = [NameChange((gone, come), frozenset(concerned))]
    return [live.apply(change) for change in changes]


def is_ordered(row: Row) -> bool:
    """Whether it is one of the changes that a journal keeps in order."""
    if isinstance(row.change, SizeChange):
        return not row.change.at_least
    return row.change is not None


def span_of(row: Row) -> tuple[int, int]:
    """Which bytes of its file a sync has to be of to make a change durable, if it is of a range:
    from the first to the end.

    For a growth the end alone counts, and what no bytes belong to, such as a truncation, comes
    with any.
    """
    if row.change is None:
        return row.request.offset, row.request.offset + row.request.length
    if isinstance(row.change, SizeChange) and row.change.at_least:
        return ANYWHERE, row.change.size
    return ANYWHERE, 0


def block_end(size: int) -> int:
    """Where the last block of a file of that size ends."""
    return -(-size // _BLOCK) * _BLOCK


def truncations(rows: list[Row]) -> dict[int, list[tuple[int, int]]]:
    """Of each file the rows that set its size, and the size."""
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for index, row in enumerate(rows):
        if isinstance(row.change, SizeChange) and not row.change.at_least:
            found[row.change.file].append((index, row.change.size))
    return found
