# SPDX-License-Identifier: Apache-2.0
"""Which writes are issued, and which are durable, at any instant.

The rules, for a cut at instant *t* on a disk with a volatile write cache
("before" is strict everywhere: what happens at *t* has not happened):

1. *issued(t)*: the writes submitted before *t*.  Write-zeroes and discards change
   the medium as writes do and count as writes.
2. *durable(t)*: the writes with FUA that completed before *t*, and the writes that
   completed before the submission of some flush that completed before *t*.
3. Without a volatile cache a write is durable when it completes.
4. On a disk that ignores flushes (or FUA), a flush (or FUA) makes nothing durable:
   such a disk's promise is worth nothing.  A write whose FUA was ignored is still
   made durable by a flush that is not.
5. What failed has not completed.  A failed write may have changed the medium: it is
   issued.  A failed flush makes nothing durable.
6. What a full cache destages is on the medium, but this was not promised: it counts
   for the disk as it really was (crash/survival.py), never for a promise.

7. Of several disks that lose their power at one instant, each is a range of the whole.  A flush
   of one covers the writes that lie in its range, and says nothing of the others; one of
   them may ignore its flushes, or FUA, alone.

So every write has one instant, `durable_ns`, and is in durable(t) for each later t.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from powercut.model.contract import Honour
from powercut.model.timeline import RequestKind, Requests, Timeline
from powercut.model.units import NEVER

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class DurabilitySets:
    """One element per request of a timeline, in submission order.

    `durable_ns`: the write is durable at every later instant; `NEVER` for one that
    was not made durable, and for what is no write.
    `epoch`: number of flushes submitted before the request.
    `successor`: index of the first request that was submitted after this one
    completed; the number of requests if there is none.
    """

    is_write: Mask
    submitted_ns: I64
    durable_ns: I64
    epoch: I64
    successor: I64

    def issued(self, instant: int) -> Mask:
        """The writes that may be on the medium after a cut at `instant`."""
        return self.is_write & (self.submitted_ns < instant)

    def durable(self, instant: int) -> Mask:
        """The writes that are on the medium after every legal cut at `instant`."""
        return self.is_write & (self.durable_ns < instant)


def first_covering_flush_ns(completed_ns: I64, flush_submitted_ns: I64, flush_done_ns: I64) -> I64:
    """For each completion: the earliest end of a flush that was submitted after it.

    The flushes are given in the order of their submission.  A later flush may end
    earlier, hence the minimum over all that follow.
    """
    earliest = np.minimum.accumulate(flush_done_ns[::-1])[::-1]
    earliest = np.append(earliest, np.int64(NEVER))
    covering = np.searchsorted(flush_submitted_ns, completed_ns, side="right")
    return np.asarray(earliest[covering], dtype=np.int64)


def by_reach(requests: Requests, flushes: I64) -> Iterator[tuple[I64, I64]]:
    """`flushes` by what they cover: those of one range in order, and the requests in that range.

    Where all cover the whole disk, that is one pair.
    """
    begin, length = requests.offset[flushes], requests.length[flushes]
    for first, size in sorted(set(zip(begin.tolist(), length.tolist(), strict=True))):
        mine = flushes[(begin == first) & (length == size)]
        if size == 0:
            yield mine, np.arange(len(requests))
            continue
        inside = (requests.offset >= first) & (requests.offset + requests.length <= first + size)
        yield mine, np.flatnonzero(inside)


def _flushed_ns(requests: Requests, completed: I64) -> I64:
    """When each request became durable by a flush; `NEVER` if by none."""
    durable = np.full(len(requests), NEVER, dtype=np.int64)
    flushes = np.flatnonzero((requests.kind == RequestKind.FLUSH) & requests.believed)
    for flush, covered in by_reach(requests, flushes):
        covering_ns = first_covering_flush_ns(
            completed[covered], requests.submitted_ns[flush], completed[flush]
        )
        durable[covered] = np.minimum(durable[covered], covering_ns)
    return durable


def durability_sets(timeline: Timeline) -> DurabilitySets:
    """Applies the rules above to every request; O(n log n) in the requests.

    Raises `ValueError` if the requests are not in the order of their submission.
    """
    requests, contract = timeline.requests, timeline.contract
    submitted, completed = requests.submitted_ns, requests.completed_ns
    if len(requests) and bool((np.diff(submitted) < 0).any()):
        raise ValueError("requests must be in the order of their submission")
    is_write = requests.is_write
    # A request may complete with an error; Requests gives NEVER then, and this insists.
    completed = np.where(requests.failed, np.int64(NEVER), completed)
    flush = np.flatnonzero(requests.kind == RequestKind.FLUSH)
    durable = np.full(len(requests), NEVER, dtype=np.int64)
    if not contract.volatile_cache:
        durable = completed.copy()
    else:
        if contract.flush is Honour.HONOURED:
            durable = _flushed_ns(requests, completed)
        if contract.fua is Honour.HONOURED:
            kept = requests.fua & requests.believed
            durable = np.where(kept, np.minimum(durable, completed), durable)
    durable[~is_write] = NEVER
    if timeline.cut is not None:
        # Nothing that happens after the power is gone makes anything durable.
        durable[durable >= timeline.cut.at] = NEVER
    return DurabilitySets(
        is_write=is_write,
        submitted_ns=submitted,
        durable_ns=durable,
        epoch=np.searchsorted(submitted[flush], submitted, side="left").astype(np.int64),
        successor=np.searchsorted(submitted, completed, side="right").astype(np.int64),
    )
