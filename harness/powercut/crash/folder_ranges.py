# SPDX-License-Identifier: Apache-2.0
"""Syncs of a range of a captured file: what they cover, and what they cut in two.

Linux writes back whole pages, and of a file whose range is synced those that the range touches
(vfs_fsync_range in fs/sync.c).  So such a sync covers the bytes in those pages, and the changes of
size that end there or before.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.model.folder import FolderOp, FolderRequest

I64 = npt.NDArray[np.int64]

_PAGE: Final = 4096
"""Bytes: the least that a kernel has."""

ANYWHERE: Final = 1 << 62
"""As the first byte of a change: it comes before none that a sync is of."""

_CONTENTS: Final = (FolderOp.WRITE, FolderOp.ZERO)


def is_ranged(request: FolderRequest) -> bool:
    """Whether it is a sync of a part of its file."""
    return request.op is FolderOp.FLUSH and request.length > 0


def reach_of(request: FolderRequest) -> tuple[int, int]:
    """The bytes of whole pages, from the first to the end, that a request touches."""
    end = request.offset + request.length
    return request.offset // _PAGE * _PAGE, -(-end // _PAGE) * _PAGE


def reaches(request: FolderRequest, begin: int, end: int) -> bool:
    """Whether a sync is of all the bytes from `begin` to `end`."""
    first, last = reach_of(request)
    return not is_ranged(request) or (first <= begin and end <= last)


class Covered:
    """Changes of one file, and from when on syncs of ranges make each of them durable.

    A change is that of the bytes from `begin` to `end`; `done_ns` is when it was completed.
    """

    def __init__(self, begin: I64, end: I64, done_ns: I64, durable_ns: I64) -> None:
        self._begin, self._end, self._done = begin, end, done_ns
        self.durable_ns = durable_ns
        self._left = np.arange(len(begin))

    def sync(self, request: FolderRequest) -> None:
        """By a sync, or by a synchronous write, which is one of what leads to its bytes; they come
        in the order of their submission.
        """
        begin, end = reach_of(request)
        if not is_ranged(request):
            begin = ANYWHERE
        asked, done = request.submitted_ns, request.completed_ns
        self._left = self._left[self.durable_ns[self._left] > asked]
        left = self._left
        inside = (self._done[left] < asked) & (self._begin[left] >= begin)
        inside &= self._end[left] <= end
        covered = left[inside]
        self.durable_ns[covered] = np.minimum(self.durable_ns[covered], done)


def pieces(requests: Iterable[FolderRequest]) -> list[FolderRequest]:
    """The requests, each write of which some syncs cover a part cut there into several: one of
    these may be durable while another is not.
    """
    known = list(requests)
    syncs: dict[int, list[FolderRequest]] = defaultdict(list)
    for request in known:
        if is_ranged(request):
            syncs[request.object].append(request)
    if not syncs:
        return known
    written: dict[int, list[int]] = defaultdict(list)
    for index, request in enumerate(known):
        if request.op in _CONTENTS and request.object in syncs and not request.at_once:
            written[request.object].append(index)
    cuts: dict[int, set[int]] = defaultdict(set)
    for number, indices in written.items():
        spans = [(known[index].offset, known[index].length) for index in indices]
        begin, length = np.array(spans, dtype=np.int64).T
        done = np.array([known[index].completed_ns for index in indices], dtype=np.int64)
        for sync in syncs[number]:
            for edge in reach_of(sync):
                inside = (begin < edge) & (edge < begin + length) & (done < sync.submitted_ns)
                for at in np.flatnonzero(inside).tolist():
                    cuts[indices[at]].add(edge)
    return [
        piece
        for index, request in enumerate(known)
        for piece in _cut(request, sorted(cuts.get(index, ())))
    ]


def _cut(request: FolderRequest, places: list[int]) -> list[FolderRequest]:
    if not places:
        return [request]
    edges = [request.offset, *places, request.offset + request.length]
    data = request.data_offset - request.offset if request.data_offset >= 0 else None
    return [
        replace(
            request,
            offset=begin,
            length=end - begin,
            data_offset=-1 if data is None else data + begin,
        )
        for begin, end in itertools.pairwise(edges)
    ]
