# SPDX-License-Identifier: Apache-2.0
"""What the logs of disks and of folders have in common: a header, events, and their payloads.

Every event has a number, a checksum and a later time than the one before.  A log ends at the first
event that is not valid; behind it there must be none that is, since what came after damage
cannot be trusted to be all.
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
    DISK_KINDS,
    EVENT,
    EVENT_SIZE,
    HEADER_SIZE,
    EventType,
    LogHeader,
    LogKind,
    ReadFile,
    data_path,
    header_of,
    log_path,
)
from powercut.model.crc32c import crc32c_rows
from powercut.model.errors import DamagedRecording
from powercut.model.timeline import RequestKind
from powercut.model.units import NEVER, Instant

Mask = npt.NDArray[np.bool_]
Events = npt.NDArray[np.void]

_BLOCK: Final = 1 << 15
"""Events checked at a time: 2 MiB, which a processor's cache holds."""


@dataclass(frozen=True)
class Kinds:
    """Where the events of each type are, as indices into the events."""

    by_type: dict[EventType, npt.NDArray[np.int64]]

    @staticmethod
    def of(events: Events) -> Kinds:
        types = np.ascontiguousarray(events["type"])
        return Kinds({kind: np.flatnonzero(types == kind) for kind in EventType})

    def __getitem__(self, kind: EventType) -> npt.NDArray[np.int64]:
        return self.by_type[kind]


class EventReader:
    """One log.  `_events` shrinks to what is there, `_closed` says whether that is all."""

    _log_kinds: tuple[LogKind, ...] = DISK_KINDS
    _types: tuple[int, ...] = tuple(range(EventType.SUBMIT, EventType.END + 1))

    def __init__(self, prefix: Path, read: ReadFile) -> None:
        self._log = log_path(prefix)
        self._data_file = data_path(prefix)
        log = read(self._log)
        self._header: LogHeader = header_of(self._log, log, *self._log_kinds)
        slots = (len(log) - HEADER_SIZE) // EVENT_SIZE
        self._events: Events = log[HEADER_SIZE : HEADER_SIZE + slots * EVENT_SIZE].view(EVENT)
        self._data = read(self._data_file)

    def _carries_payload(self, events: Events) -> Mask:
        write = (events["type"] == EventType.SUBMIT) & (events["op"] == RequestKind.WRITE)
        return np.asarray(write | (events["type"] == EventType.MARK))

    def _check_events(self, *, verify_payloads: bool) -> None:
        """Leaves what is valid.  Raises DamagedRecording."""
        self._events = self._events[: self._count_valid()]
        self._check_order()
        self._drop_missing_payloads()
        if verify_payloads:
            self._verify_payloads()

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
        unknown = ~np.isin(types, self._types)
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
        return np.flatnonzero(self._carries_payload(self._events))

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

    def _marks(self, kinds: Kinds) -> tuple[tuple[Instant, str], ...]:
        marks = []
        for index in kinds[EventType.MARK].tolist():
            row = self._events[index]
            start, length = int(row["data"]), int(row["length"])
            name = self._data[start : start + length].tobytes()
            if google_crc32c.value(name) != int(row["data_crc"]):
                self._damaged(index, "is a mark whose name is damaged")
            marks.append((Instant(int(row["time_ns"])), name.decode("utf-8", "replace")))
        return tuple(marks)
