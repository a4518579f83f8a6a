# SPDX-License-Identifier: Apache-2.0
"""Reads the log of the capture disk into a `Timeline`.

The format is harness/capture/log_format.h; docs/formats/disk-log.md explains it.  A
log whose end is missing is read up to where it ends, and says so.  A log with damage
before its end is refused: what came after the damage cannot be trusted to be all.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import google_crc32c
import numpy as np
import numpy.typing as npt

from powercut.disk.pclog_format import (
    CRC_OFFSET,
    EVENT,
    EVENT_SIZE,
    HEADER_SIZE,
    POLICIES,
    Bytes,
    EventFlag,
    EventType,
    LogHeader,
    ReadFile,
    data_path,
    header_of,
    log_path,
    map_file,
)
from powercut.model.crc32c import crc32c_rows
from powercut.model.errors import DamagedRecording
from powercut.model.timeline import DiskCut, RequestKind, Requests, SurvivingRange, Timeline
from powercut.model.units import NEVER, Instant

Mask = npt.NDArray[np.bool_]
Events = npt.NDArray[np.void]

_FAILING: Final = ("refusing requests", "failing reads")
"""How those marks begin with which the disk says that its host fails it; see the format's page."""

_BLOCK: Final = 1 << 15
"""Events checked at a time: 2 MiB, which a processor's cache holds."""


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
    return tuple(name for _, name in timeline.marks if name.startswith(_FAILING))


def surviving_image(timeline: Timeline, base: Path) -> Bytes:
    """What the disk holds after its cut; without one, what a cut at the end would leave at least.

    Computed from the log alone: what a flush or FUA made durable, what a full cache
    destaged and what the cut left, in the order of submission.  One byte per byte of
    the disk.
    """
    image = np.fromfile(base, dtype=np.uint8)
    if len(image) != timeline.disk_size:
        raise DamagedRecording(
            f"{base}: {len(image)} bytes, but the recorded disk has {timeline.disk_size}"
        )
    requests = timeline.requests
    ranges = [
        (int(request), int(requests.offset[request]), int(requests.length[request]))
        for request in np.flatnonzero(_durable(timeline))
    ]
    kept = timeline.destaged + timeline.survived
    ranges += [(kept_range.request, kept_range.offset, kept_range.length) for kept_range in kept]
    for request, offset, length in sorted(ranges):
        target = image[offset : offset + length]
        if requests.kind[request] == RequestKind.WRITE:
            start = offset - int(requests.offset[request])
            target[:] = timeline.payload(request)[start : start + length]
        else:
            target[:] = 0
    return image


def _durable(timeline: Timeline) -> Mask:
    """Writes that the contract had made durable when the log ended."""
    requests, contract = timeline.requests, timeline.contract
    completed = requests.is_write & (requests.completed_ns != NEVER)
    if not contract.volatile_cache:
        return np.asarray(completed)
    durable = np.zeros(len(requests), dtype=np.bool_)
    if contract.fua.value == "honoured":
        durable |= requests.fua
    if contract.flush.value == "honoured":
        flushed = (requests.kind == RequestKind.FLUSH) & (requests.completed_ns != NEVER)
        durable |= requests.completed_ns < requests.submitted_ns[flushed].max(initial=0)
    return np.asarray(completed & durable)


@dataclass(frozen=True)
class _Kinds:
    """Where the events of each type are, as indices into the events."""

    by_type: dict[EventType, npt.NDArray[np.int64]]

    @staticmethod
    def of(events: Events) -> _Kinds:
        types = np.ascontiguousarray(events["type"])
        return _Kinds({kind: np.flatnonzero(types == kind) for kind in EventType})

    def __getitem__(self, kind: EventType) -> npt.NDArray[np.int64]:
        return self.by_type[kind]


class _Reader:
    """One log.  `events` shrinks to what is there, `complete` says whether that is all."""

    def __init__(self, prefix: Path, read: ReadFile) -> None:
        self._log = log_path(prefix)
        self._data_file = data_path(prefix)
        log = read(self._log)
        self._header: LogHeader = header_of(self._log, log)
        slots = (len(log) - HEADER_SIZE) // EVENT_SIZE
        self._events: Events = log[HEADER_SIZE : HEADER_SIZE + slots * EVENT_SIZE].view(EVENT)
        self._data = read(self._data_file)

    def timeline(self, *, verify_payloads: bool) -> Timeline:
        self._events = self._events[: self._count_valid()]
        self._check_order()
        self._drop_missing_payloads()
        if verify_payloads:
            self._verify_payloads()
        kinds = _Kinds.of(self._events)
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

    @property
    def _closed(self) -> bool:
        return bool(len(self._events)) and int(self._events["type"][-1]) == EventType.END

    def _damaged(self, event: int, what: str) -> NoReturn:
        raise DamagedRecording(
            f"{self._log}: event {event} {what}",
            hint="copy the recording again if it was copied; else record anew",
        )

    # -- which events are there ---------------------------------------------------

    def _count_valid(self) -> int:
        """The events before the first that is not valid; after that one there must be none."""
        bad = -1
        for start in range(0, len(self._events), _BLOCK):
            valid = self._valid(start)
            if bad < 0 and not valid.all():
                bad = start + int(valid.argmin())
            if bad >= 0 and valid[max(bad - start, 0) :].any():
                self._damaged(bad, "is damaged, and there are valid ones after it")
        return bad if bad >= 0 else len(self._events)

    def _valid(self, start: int) -> Mask:
        block = self._events[start : start + _BLOCK]
        valid: Mask = np.asarray(
            block["sequence"] == np.arange(start, start + len(block), dtype=np.uint64)
        )
        if not valid.any():
            return valid
        rows = np.frombuffer(block.tobytes(), dtype=np.uint8).reshape(-1, EVENT_SIZE)
        # Checked a column at a time: in this order a column is in one piece.
        columns = np.asfortranarray(rows[:, :CRC_OFFSET])
        return np.asarray(valid & (crc32c_rows(columns) == block["crc"]))

    def _check_order(self) -> None:
        """Types are known, times rise, and what ends the log stands at its end."""
        types = np.ascontiguousarray(self._events["type"])
        unknown = (types < EventType.SUBMIT) | (types > EventType.END)
        if unknown.any():
            self._damaged(int(unknown.argmax()), "is of an unknown type")
        times = np.ascontiguousarray(self._events["time_ns"])
        odd = (times < 0) | (times == NEVER)
        if odd.any():
            self._damaged(int(odd.argmax()), "has a time that is on no clock")
        rising = times[1:] > times[:-1]
        if not rising.all():
            self._damaged(int(rising.argmin()) + 1, "is not later than the one before it")
        ends = types[:-1] == EventType.END
        if ends.any():
            self._damaged(int(ends.argmax()) + 1, "follows the end of the log")
        cuts = np.flatnonzero(types == EventType.CUT)
        after = np.zeros(len(types), dtype=np.bool_)
        if len(cuts):
            after[cuts[0] + 1 :] = True
        misplaced = after != ((types == EventType.SURVIVE) | ((types == EventType.END) & after))
        if misplaced.any():
            self._damaged(int(misplaced.argmax()), "does not belong where the power was cut")

    # -- payloads -------------------------------------------------------------------

    def _payload_events(self) -> npt.NDArray[np.int64]:
        events = self._events
        write = (events["type"] == EventType.SUBMIT) & (events["op"] == RequestKind.WRITE)
        return np.flatnonzero(write | (events["type"] == EventType.MARK))

    def _truncate(self, event: int, what: str) -> None:
        """The log ends before `event`, unless it was closed in order."""
        if self._closed:
            self._damaged(event, what)
        self._events = self._events[:event]

    def _drop_missing_payloads(self) -> None:
        carriers = self._payload_events()
        start, length = (self._events[field][carriers] for field in ("data", "length"))
        missing = (start < 0) | (length < 0) | (start > len(self._data) - length)
        if missing.any():
            self._truncate(
                int(carriers[missing.argmax()]), f"has no payload in {self._data_file.name}"
            )

    def _payload_is_right(self, event: int) -> bool:
        row = self._events[event]
        payload = self._data[int(row["data"]) : int(row["data"]) + int(row["length"])]
        return bool(google_crc32c.value(payload.tobytes()) == int(row["data_crc"]))

    def _verify_payloads(self) -> None:
        carriers = self._payload_events().tolist()
        bad = next((e for e in carriers if not self._payload_is_right(e)), None)
        if bad is None:
            return
        if any(self._payload_is_right(event) for event in carriers if event > bad):
            self._damaged(bad, "has a damaged payload, and there are right ones after it")
        self._truncate(bad, "has a damaged payload")

    # -- what the events say ----------------------------------------------------------

    def _requests(self, kinds: _Kinds) -> Requests:
        events = self._events
        at = kinds[EventType.SUBMIT]
        submits = events[at]
        count = len(at)
        self._check_submissions(at, submits)
        completed = np.full(count, NEVER, dtype=np.int64)
        failed = np.zeros(count, dtype=np.bool_)
        self._complete(kinds[EventType.COMPLETE], submits, completed, failed)
        is_write = submits["op"] == RequestKind.WRITE
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

    def _cut(self, kinds: _Kinds) -> DiskCut | None:
        if not len(kinds[EventType.CUT]):
            return None
        index = int(kinds[EventType.CUT][0])
        row = self._events[index]
        policy = POLICIES.get(int(row["op"]))
        if policy is None:
            self._damaged(index, "cuts by an unknown policy")
        return DiskCut(at=Instant(int(row["time_ns"])), policy=policy, seed=int(row["request"]))

    def _marks(self, kinds: _Kinds) -> tuple[tuple[Instant, str], ...]:
        marks = []
        for index in kinds[EventType.MARK].tolist():
            row = self._events[index]
            start, length = int(row["data"]), int(row["length"])
            name = self._data[start : start + length].tobytes()
            if google_crc32c.value(name) != int(row["data_crc"]):
                self._damaged(index, "is a mark whose name is damaged")
            marks.append((Instant(int(row["time_ns"])), name.decode("utf-8", "replace")))
        return tuple(marks)
