# SPDX-License-Identifier: Apache-2.0
"""How far the run of a recording came, by its evidence: every call of a folder; of a disk what was
written, and the names of files where its file system was asked for them (files.json).
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from powercut.crash.folder_rows import Namespace, Promise, name_changes
from powercut.model.folder import MAKING, NAMING, FolderOp, FolderRequest, FolderTimeline
from powercut.model.reached import FilesMet, Reached
from powercut.model.timeline import Timeline
from powercut.store.file_map import FileMaps


def reached_in_folder(
    folder: FolderTimeline, operations: int, start_ns: int, cut_ns: int
) -> Reached:
    """By all calls from `start_ns` on."""
    calls = _Calls()
    size = 0
    for request in folder.requests:
        calls.add(request, counts=request.submitted_ns > start_ns)
        if request.op is FolderOp.WRITE and request.submitted_ns > start_ns:
            size += request.length
    return Reached(operations, size, round((cut_ns - start_ns) / 1e9, 3), calls.met())


def reached_on_disk(timeline: Timeline, operations: int, start_ns: int | None) -> Reached | None:
    """By what was written from `start_ns` on; None of a recording without a cut."""
    if timeline.cut is None:
        return None
    requests = timeline.requests
    start = int(timeline.start_ns) if start_ns is None else start_ns
    written = requests.is_write & (requests.submitted_ns > start)
    seconds = round((int(timeline.cut.at) - start) / 1e9, 3)
    return Reached(operations, int(requests.length[written].sum()), seconds)


def files_met(maps: FileMaps | None) -> FilesMet | None:
    """By the names at each instant at which the file system was asked; None if it was not asked
    twice.
    """
    seen = [{one.path for one in at.files if not one.folder} for at in maps.maps] if maps else []
    if len(seen) < 2:
        return None
    changes = [*pairwise(seen)]
    return FilesMet(
        made=sum(len(after - before) for before, after in changes),
        removed=sum(len(before - after) for before, after in changes),
        looks=len(seen),
    )


class _Calls:
    """Follows names and sizes, to know what a call replaces and what it cuts off."""

    def __init__(self) -> None:
        self._live = Namespace()
        self._counts: dict[str, int] = defaultdict(int)

    def add(self, request: FolderRequest, *, counts: bool) -> None:
        """The next call; it `counts` if it is of the run."""
        number, sizes = request.object, self._live.sizes
        what = ""
        if request.op in NAMING:
            what = self._name(request)
        elif request.op is FolderOp.TRUNCATE and request.attributes is None:
            what = "truncated" if request.size < sizes[number] else ""
            sizes[number] = request.size
        elif request.op is FolderOp.GROW:
            sizes[number] = max(sizes[number], request.size)
        elif request.op is FolderOp.WRITE:
            end = request.offset + request.length
            sizes[number] = max(sizes[number], end)
        if counts:
            self._counts[what] += 1

    def met(self) -> FilesMet:
        told = self._counts
        return FilesMet(
            made=told["made"],
            removed=told["removed"],
            renamed=told["renamed"] + told["replacing"],
            replacing=told["replacing"],
            truncated=told["truncated"],
        )

    def _name(self, request: FolderRequest) -> str:
        there = (request.other, request.names[-1])
        replaced = request.op is FolderOp.RENAME and there in self._live.entries
        name_changes(request, self._live, Promise.JOURNAL)
        if request.op in MAKING or request.op is FolderOp.LINK:
            return "made"
        if request.op is not FolderOp.RENAME:
            return "removed"
        return "replacing" if replaced and not request.exchange else "renamed"
