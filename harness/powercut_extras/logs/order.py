# SPDX-License-Identifier: Apache-2.0
"""What the order of a log's entries leaves open.

The log has the order in which requests completed (QEMU) or in which their flush did
(kernel).  Within an epoch, overlapping writes are taken to have reached the disk in the
order of the log: nothing that the project knows of sends two overlapping writes at
once, and the log could not show it.  In one case the kernel's order is known to differ:
a FUA write enters the log when it completes, a plain write that completed before it
only with the next flush.  If the two overlap, the log shows the older content last.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from powercut_extras.logs.format import Dialect, Flag, LogWrites

_DOUBTS_MAX = 5


def flushes_before(log: LogWrites) -> npt.NDArray[np.int64]:
    """For each entry, the number of FLUSH entries before it: the epoch that it is in."""
    flush = log.has(Flag.FLUSH)
    return np.asarray(np.cumsum(flush) - flush, dtype=np.int64)


def overlaps(
    group: npt.NDArray[np.int64], start: npt.NDArray[np.int64], length: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """True for each interval that overlaps another one of the same group.

    `group` must not fall from element to element; start and length are in sectors.
    """
    overlapping = np.zeros(len(group), np.bool_)
    if len(group) < 2:
        return overlapping
    order = np.lexsort((start, group))
    group, begin, end = group[order], start[order], (start + length)[order]
    same = group[1:] == group[:-1]
    # The highest end so far in the group: ends are lifted by group so that an
    # earlier group's never exceed a later one's start.
    span = int(end.max()) + 1
    _, dense = np.unique(group, return_inverse=True)
    if (int(dense[-1]) + 1) * span >= 1 << 62:
        raise OverflowError("too many epochs on too large a disk")
    lift = dense.astype(np.int64) * span
    highest = np.maximum.accumulate(end + lift)
    overlapping[1:] = same & (begin[1:] + lift[1:] < highest[:-1])
    overlapping[:-1] |= same & (begin[1:] < end[:-1])
    result = np.empty_like(overlapping)
    result[order] = overlapping
    return result


def order_doubts(log: LogWrites) -> tuple[str, ...]:
    """Sentences about FUA writes that a plain write behind them in the log overlaps.

    A plain write in a flush's group completed after the flush before was submitted; so
    a FUA write in the same epoch, or in the one before, may have come later than it.
    """
    if log.dialect is not Dialect.KERNEL:
        return ()
    index = np.flatnonzero(log.has_data)
    if not log.has(Flag.FUA)[index].any():
        return ()
    epoch = flushes_before(log)[index]
    start, length = log.sector[index], log.nr_sectors[index]
    suspect = np.zeros(len(index), np.bool_)
    for group in (epoch // 2, (epoch + 1) // 2):
        suspect |= overlaps(group, start, length)
    index, epoch, start = index[suspect], epoch[suspect], start[suspect]
    end = start + length[suspect]
    fua = log.has(Flag.FUA)[index]
    doubts: list[str] = []
    for row in np.flatnonzero(fua):
        stop = int(np.searchsorted(epoch, epoch[row] + 1, side="right"))
        later = slice(row + 1, stop)
        hit = ~fua[later] & (start[later] < end[row]) & (end[later] > start[row])
        if hit.any():
            other = int(index[row + 1 + int(np.argmax(hit))])
            doubts.append(
                f"entries {int(index[row]):,} (FUA) and {other:,} overlap, and the log cannot tell "
                "which of them is the newer one"
            )
        if len(doubts) == _DOUBTS_MAX:
            break
    return tuple(doubts)
