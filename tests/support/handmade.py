# SPDX-License-Identifier: Apache-2.0
"""Timelines and histories written by hand: for tests, and to explain a case.

made = Handmade(disk_size=8192)
first = made.write(0, page, at=1, done=2)
made.flush(at=3, done=4)
timeline = made.timeline()
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from powercut.model.contract import CutPolicy, DeviceContract
from powercut.model.history import History
from powercut.model.timeline import DiskCut, RequestKind, Requests, SurvivingRange, Timeline
from powercut.model.units import NEVER, Instant


@dataclass
class Handmade:
    """Collects requests in the order of their submission; instants are nanoseconds."""

    disk_size: int
    contract: DeviceContract = field(default_factory=DeviceContract)
    _rows: list[tuple[int, bool, int, int, int, int, int]] = field(default_factory=list)
    _ignored: set[int] = field(default_factory=set)
    _data: bytearray = field(default_factory=bytearray)

    def write(
        self,
        offset: int,
        data: bytes,
        *,
        at: int,
        done: int = NEVER,
        fua: bool = False,
        ignored: bool = False,
    ) -> int:
        """A write; returns its index.  `ignored`: its FUA is, by its disk alone."""
        if ignored:
            self._ignored.add(len(self._rows))
        start = len(self._data)
        self._data += data
        return self._add(RequestKind.WRITE, offset, len(data), at, done, fua, start)

    def zero(self, offset: int, length: int, *, at: int, done: int = NEVER) -> int:
        """A write-zeroes; returns its index."""
        return self._add(RequestKind.ZERO, offset, length, at, done)

    def discard(self, offset: int, length: int, *, at: int, done: int = NEVER) -> int:
        """A discard; returns its index."""
        return self._add(RequestKind.DISCARD, offset, length, at, done)

    def flush(
        self,
        *,
        at: int,
        done: int = NEVER,
        disk: tuple[int, int] = (0, 0),
        ignored: bool = False,
    ) -> int:
        """A flush; returns its index.  `disk`: offset and length of the one that it is for."""
        if ignored:
            self._ignored.add(len(self._rows))
        return self._add(RequestKind.FLUSH, *disk, at, done)

    def _add(
        self,
        kind: RequestKind,
        offset: int,
        length: int,
        at: int,
        done: int,
        fua: bool = False,
        data: int = -1,
    ) -> int:
        self._rows.append((kind, fua, offset, length, at, done, data))
        return len(self._rows) - 1

    def timeline(
        self,
        *,
        cut_at: int | None = None,
        survived: Sequence[SurvivingRange] = (),
        destaged: Sequence[SurvivingRange] = (),
        complete: bool = True,
    ) -> Timeline:
        """Everything so far as a timeline; with `cut_at`, of a disk that lost its power then."""
        rows = np.array(self._rows, dtype=np.int64).reshape(-1, 7)
        return Timeline(
            disk_size=self.disk_size,
            contract=self.contract,
            requests=Requests(
                kind=rows[:, 0].astype(np.uint8),
                fua=rows[:, 1].astype(np.bool_),
                offset=rows[:, 2],
                length=rows[:, 3],
                submitted_ns=rows[:, 4],
                completed_ns=rows[:, 5],
                data_offset=rows[:, 6],
                failed=np.zeros(len(rows), dtype=np.bool_),
                ignored=np.isin(np.arange(len(rows)), sorted(self._ignored))
                if self._ignored
                else None,
            ),
            data=np.frombuffer(bytes(self._data), dtype=np.uint8),
            survived=tuple(survived),
            destaged=tuple(destaged),
            cut=None if cut_at is None else DiskCut(Instant(cut_at), CutPolicy.DROP, 0),
            complete=complete,
        )


def history(
    acks: Sequence[tuple[int, int]], attempts: Sequence[tuple[int, int]] | None = None
) -> History:
    """A history of claims (LSN, instant); without attempts, all was attempted at once at 0."""
    if attempts is None:
        attempts = [(max((lsn for lsn, _ in acks), default=0), 0)]
    attempt = np.array(attempts, dtype=np.int64).reshape(-1, 2)
    ack = np.array(acks, dtype=np.int64).reshape(-1, 2)
    return History(
        attempt_lsn=attempt[:, 0],
        attempt_ns=attempt[:, 1],
        ack_lsn=ack[:, 0],
        ack_ns=ack[:, 1],
        attempt_guest_ns=attempt[:, 1],
        ack_guest_ns=ack[:, 1],
    )
