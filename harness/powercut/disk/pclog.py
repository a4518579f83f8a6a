# SPDX-License-Identifier: Apache-2.0
"""Reads the log of the capture disk into a `Timeline`.

The format is harness/capture/log_format.h; docs/formats/disk-log.md explains it.  A
log whose end is missing is read up to where it ends, and says so.  A log with damage
before its end is refused: what came after the damage cannot be trusted to be all.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.disk.event_log import EventReader, Events, Kinds, Mask
from powercut.disk.pclog_format import POLICIES, EventFlag, EventType, LogKind, ReadFile, map_file
from powercut.model.timeline import DiskCut, RequestKind, Requests, SurvivingRange, Timeline
from powercut.model.units import NEVER, Instant

_FAILING: Final = ("refusing requests", "failing reads", "failing syncs")
"""How those marks begin with which the disk says that its host fails it; see the format's page."""


_INJECTED: Final = "injected: "
"""How the mark of an error begins that the disk was told to make."""


def read_timeline(prefix: Path, *, verify_payloads: bool, read: ReadFile = map_file) -> Timeline:
    """The timeline recorded in PREFIX.log and PREFIX.data, whose contents `read` gives.

    Every event is checked; the payloads of writes only with `verify_payloads`.
    Raises DamagedRecording, naming file and event, for anything wrong before the end.
    """
    return _Reader(prefix, read).timeline(verify_payloads=verify_payloads)


def host_failures(timeline: Timeline) -> tuple[str, ...]:
    """How its host failed the capture disk, in the disk's own marks; empty if it did not.

    Such a disk has kept no contract: what a guest made of it acquits no disk and convicts none.
    """
    return failing_marks(timeline.marks)


def failing_marks(marks: Sequence[tuple[Instant, str]]) -> tuple[str, ...]:
    """Those of `marks` by which a recorder says that its host fails it."""
    return tuple(name for _, name in marks if name.startswith(_FAILING))


def injected_errors(timeline: Timeline) -> tuple[tuple[Instant, str], ...]:
    """The errors that the disk was told to make and made: when, and which in its own words."""
    return tuple(
        (at, name.removeprefix(_INJECTED))
        for at, name in timeline.marks
        if name.startswith(_INJECTED)
    )


class _Reader(EventReader):
    def timeline(self, *, verify_payloads: bool) -> Timeline:
        self._check_events(verify_payloads=verify_payloads)
        kinds = Kinds.of(self._events)
        requests = self._requests(kinds)
        cut = self._cut(kinds)
        return Timeline(
            disk_size=self._header.disk_size,
            contract=self._header.contract,
            requests=requests,
            data=self._data,
            destaged=self._ranges(kinds[EventType.DESTAGE], requests, None),
            survived=self._ranges(kinds[EventType.SURVIVE], requests, cut),
            cut=cut,
            marks=self._marks(kinds),
            complete=self._closed,
            start_ns=self._header.start_monotonic_ns,
        )

    # -- what the events say ----------------------------------------------------------

    def _requests(self, kinds: Kinds) -> Requests:
        events = self._events
        at = kinds[EventType.SUBMIT]
        submits = events[at]
        count = len(at)
        self._check_submissions(at, submits)
        completed = np.full(count, NEVER, dtype=np.int64)
        failed = np.zeros(count, dtype=np.bool_)
        self._complete(kinds[EventType.COMPLETE], submits, completed, failed)
        is_write = submits["op"] == RequestKind.WRITE
        # Of one disk, the contract in the header says it all.
        several = self._header.kind is LogKind.DISKS
        if self._closed and int(events["request"][-1]) != count:
            self._damaged(len(events) - 1, f"ends a log of another number of requests than {count}")
        return Requests(
            kind=np.ascontiguousarray(submits["op"]),
            fua=(submits["flags"] & EventFlag.FUA) != 0,
            offset=np.ascontiguousarray(submits["offset"]),
            length=np.ascontiguousarray(submits["length"]),
            submitted_ns=np.ascontiguousarray(submits["time_ns"]),
            completed_ns=completed,
            data_offset=np.where(is_write, submits["data"], np.int64(-1)),
            failed=failed,
            ignored=(submits["flags"] & EventFlag.IGNORED) != 0 if several else None,
        )

    def _check_submissions(self, at: npt.NDArray[np.int64], submits: Events) -> None:
        def check(bad: Mask, what: str) -> None:
            if bad.any():
                self._damaged(int(at[bad.argmax()]), what)

        check(submits["request"] != np.arange(len(at), dtype=np.uint64), "is out of order")
        op = submits["op"]
        check((op < RequestKind.WRITE) | (op > RequestKind.FLUSH), "submits an unknown request")
        offset, length = submits["offset"], submits["length"]
        outside = (offset < 0) | (length < 0) | (offset > self._header.disk_size - length)
        check(outside, "lies beyond the end of the disk")

    def _complete(
        self,
        at: npt.NDArray[np.int64],
        submits: Events,
        completed: npt.NDArray[np.int64],
        failed: Mask,
    ) -> None:
        completions = self._events[at]
        request = completions["request"].astype(np.int64)

        def check(bad: Mask, what: str) -> None:
            if bad.any():
                self._damaged(int(at[bad.argmax()]), what)

        check((request < 0) | (request >= len(submits)), "completes a request that is not there")
        early = completions["time_ns"] < submits["time_ns"][request]
        check(early, "completes a request before it was submitted")
        check(completions["op"] != submits["op"][request], "completes another kind of request")
        if len(request) and np.bincount(request).max() > 1:
            _, first = np.unique(request, return_index=True)
            again = np.ones(len(request), dtype=np.bool_)
            again[first] = False
            check(again, "completes a request for the second time")
        failure = (completions["flags"] & EventFlag.FAILED) != 0
        injected = (completions["flags"] & EventFlag.INJECTED) != 0
        check(injected & ~failure, "injects an error into a request that has not failed")
        completed[request[~failure]] = completions["time_ns"][~failure]
        failed[request[failure]] = True

    def _ranges(
        self, at: npt.NDArray[np.int64], requests: Requests, cut: DiskCut | None
    ) -> tuple[SurvivingRange, ...]:
        rows = self._events[at]
        request = rows["request"].astype(np.int64)
        known = (request >= 0) & (request < len(requests))
        if not known.all():
            self._damaged(int(at[known.argmin()]), "names a request that is not there")
        start, length = rows["offset"], rows["length"]
        end = requests.offset[request] + requests.length[request]
        inside = (start >= requests.offset[request]) & (start < end)
        inside &= (length > 0) & (length <= end - np.minimum(start, end))
        inside &= requests.is_write[request]
        if not inside.all():
            self._damaged(int(at[inside.argmin()]), "names bytes that its write does not have")
        times = rows["time_ns"].tolist() if cut is None else [int(cut.at)] * len(at)
        columns = zip(request.tolist(), start.tolist(), length.tolist(), times, strict=True)
        return tuple(
            SurvivingRange(number, offset, size, Instant(time))
            for number, offset, size, time in columns
        )

    def _cut(self, kinds: Kinds) -> DiskCut | None:
        if not len(kinds[EventType.CUT]):
            return None
        index = int(kinds[EventType.CUT][0])
        row = self._events[index]
        policy = POLICIES.get(int(row["op"]))
        if policy is None:
            self._damaged(index, "cuts by an unknown policy")
        return DiskCut(at=Instant(int(row["time_ns"])), policy=policy, seed=int(row["request"]))
