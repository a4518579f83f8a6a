# SPDX-License-Identifier: Apache-2.0
"""From when on each change of a captured folder is durable; the rules: powercut.crash.folder."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from powercut.crash.folder_ranges import Covered, is_ranged
from powercut.crash.folder_rows import (
    AttributeChange,
    NameChange,
    Promise,
    Row,
    SizeChange,
    is_ordered,
    span_of,
)
from powercut.crash.sets import DurabilitySets, first_covering_flush_ns
from powercut.model.folder import FolderRequest, FolderTimeline
from powercut.model.timeline import RequestKind
from powercut.model.units import NEVER

I64 = npt.NDArray[np.int64]


def folder_sets(
    folder: FolderTimeline, rows: list[Row], promise: Promise, *, lying: bool
) -> DurabilitySets:
    """Applies the rules to every row; with `lying` nothing that came after the beginning is."""
    submitted = np.array([row.request.submitted_ns for row in rows], dtype=np.int64)
    completed = np.array([row.request.completed_ns for row in rows], dtype=np.int64)
    durable = np.full(len(rows), NEVER, dtype=np.int64)
    if not lying:
        _sync_contents(rows, durable)
        if promise is Promise.POSIX:
            _sync_names_posix(rows, durable)
        else:
            _sync_names_journal(rows, durable)
        if folder.cut_ns is not None:
            durable[durable >= folder.cut_ns] = NEVER
    base = submitted < folder.begin_ns
    durable[base] = completed[base]
    is_write = np.array([row.kind is not RequestKind.FLUSH for row in rows], dtype=np.bool_)
    durable[~is_write] = NEVER
    flushes = submitted[~is_write]
    return DurabilitySets(
        is_write=is_write,
        submitted_ns=submitted,
        durable_ns=durable,
        epoch=np.searchsorted(flushes, submitted, side="left").astype(np.int64),
        successor=np.searchsorted(submitted, completed, side="right").astype(np.int64),
    )


@dataclass
class _Syncs:
    """Syncs of one object, in the order of their submission."""

    submitted: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)

    def add(self, request: FolderRequest) -> None:
        self.submitted.append(request.submitted_ns)
        self.done.append(request.completed_ns)

    def cover(self, completed: list[int]) -> I64:
        """For each completion the first end of a sync that was submitted after it."""
        columns = (
            np.array(values, dtype=np.int64) for values in (completed, self.submitted, self.done)
        )
        return first_covering_flush_ns(*columns)


def _named(row: Row) -> bool:
    """Whether it is a change of names or attributes, which are not what a file holds."""
    return isinstance(row.change, NameChange | AttributeChange)


def _syncs(rows: list[Row], *, ranges: bool, whole: bool = False) -> dict[int, _Syncs]:
    """The syncs of each object, those of everything among them; with `ranges` those of a part of a
    file, too, and `whole` without fdatasync."""
    found: dict[int, _Syncs] = defaultdict(_Syncs)
    everyone = {row.request.object for row in rows} | {
        number
        for row in rows
        if isinstance(row.change, NameChange)
        for number in row.change.concerns
    }
    for row in rows:
        request = row.request
        if row.kind is RequestKind.FLUSH:
            if (whole and request.data_only) or (is_ranged(request) and not ranges):
                continue
            for number in [request.object] if request.object else everyone:
                found[number].add(request)
    return found


def _sync_contents(rows: list[Row], durable: I64) -> None:
    """Rules 1 and 2."""
    syncs = _syncs(rows, ranges=False)
    of_file: dict[int, list[int]] = defaultdict(list)
    ranged: dict[int, list[FolderRequest]] = defaultdict(list)
    for index, row in enumerate(rows):
        request = row.request
        if is_ranged(request) or (request.at_once and row.change is None):
            ranged[request.object].append(request)
        if row.kind is not RequestKind.FLUSH and not _named(row):
            of_file[request.object].append(index)
    for number, indices in of_file.items():
        completed = [rows[index].request.completed_ns for index in indices]
        durable[indices] = syncs[number].cover(completed)
    for index, row in enumerate(rows):
        if row.request.at_once and not _named(row):
            durable[index] = min(int(durable[index]), row.request.completed_ns)
    for number, parts in ranged.items():
        indices = of_file[number]
        spans = np.array([span_of(rows[index]) for index in indices], dtype=np.int64)
        begin, end = spans.reshape(-1, 2).T
        done = np.array([rows[index].request.completed_ns for index in indices], dtype=np.int64)
        covered = Covered(begin, end, done, durable[indices])
        for part in parts:
            covered.sync(part)
        durable[indices] = covered.durable_ns


def _sync_names_posix(rows: list[Row], durable: I64) -> None:
    syncs = _syncs(rows, ranges=True)
    of_folder: dict[int, list[int]] = defaultdict(list)
    of_object: dict[int, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        if isinstance(row.change, NameChange):
            of_folder[row.change.entries[0][0]].append(index)
        elif isinstance(row.change, AttributeChange):
            of_object[row.change.object].append(index)
    of_attributes = _syncs(rows, ranges=True, whole=True)
    for number, indices in of_object.items():
        done = [rows[i].request.completed_ns for i in indices]
        durable[indices] = of_attributes[number].cover(done)
    for number, indices in of_folder.items():
        durable[indices] = syncs[number].cover([rows[i].request.completed_ns for i in indices])


def _sync_names_journal(rows: list[Row], durable: I64) -> None:
    """Everything up to the last change of what is synced, with it."""
    order: list[int] = []
    done: list[int] = []
    last_of: dict[int, list[int]] = defaultdict(list)  # positions in `order`
    needed_of: dict[int, list[int]] = defaultdict(list)  # those that fdatasync needs
    for index, row in enumerate(rows):
        request = row.request
        position = len(order)
        if is_ordered(row):
            concerned = (
                row.change.concerns if isinstance(row.change, NameChange) else {request.object}
            )
            for number in concerned:
                last_of[number].append(position)
            if isinstance(row.change, SizeChange):
                needed_of[request.object].append(position)
            elif isinstance(row.change, NameChange) and row.change.made is not None:
                needed_of[row.change.made].append(position)
            order.append(index)
            done.append(int(NEVER))
        elif row.kind is RequestKind.FLUSH or (request.at_once and row.change is None):
            partly = request.data_only or row.kind is not RequestKind.FLUSH
            changes = (needed_of if partly else last_of)[request.object]
            if row.kind is RequestKind.FLUSH and not request.object:
                changes = list(range(position))
            at = _last_completed(rows, order, changes, request.submitted_ns)
            if at is not None:
                done[at] = min(done[at], request.completed_ns)
    earliest = np.minimum.accumulate(np.array(done, dtype=np.int64)[::-1])[::-1]
    for position, index in enumerate(order):
        durable[index] = min(
            int(durable[index]) if _sized(rows[index]) else int(NEVER), int(earliest[position])
        )


def _sized(row: Row) -> bool:
    return isinstance(row.change, SizeChange)


def _last_completed(
    rows: list[Row], order: list[int], changes: list[int], instant: int
) -> int | None:
    """The last of `changes` that completed before `instant`."""
    for position in reversed(changes):
        if rows[order[position]].request.completed_ns < instant:
            return position
    return None
