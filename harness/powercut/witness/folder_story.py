# SPDX-License-Identifier: Apache-2.0
"""Why a change of a captured folder could be lost, and what happened around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from powercut.crash.folder import FolderSpace
from powercut.crash.folder_ranges import reaches
from powercut.crash.folder_rows import (
    AttributeChange,
    NameChange,
    Promise,
    Row,
    SizeChange,
    span_of,
)
from powercut.model.timeline import RequestKind
from powercut.model.units import NEVER
from powercut.recording.folder import FolderRecording
from powercut.recording.folder_names import FolderNames, in_file
from powercut.store.witness import DroppedWrite, LostKind, WitnessEvent
from powercut.witness.later_step import step_at
from powercut.witness.search import Drop

_SHOWN_SYNCS: Final = 6
_SHOWN_OTHERS: Final = 3


class FolderStory:
    """Tells of one instant of a recording."""

    def __init__(self, recording: FolderRecording, space: FolderSpace, instant: int) -> None:
        self._recording = recording
        self.space = space
        self._instant = instant
        self._names = FolderNames(space, instant)
        self._syncs = [
            row
            for row in space.rows
            if row.kind is RequestKind.FLUSH and row.request.submitted_ns < instant
        ]

    def describe(self, row: Row, ranges: list[tuple[int, int]]) -> str:
        """What a change is, of a write its bytes in `ranges`."""
        return self._names.describe(row, ranges)

    def acked_ns(self, operation: int | None) -> int | None:
        """When the operation was acknowledged; None if it never was."""
        return next((event.at_ns for event in self._ack(operation)), None)

    def step(self, instant: int) -> str:
        """What the program was at then, by its own lines."""
        return step_at(self._recording.history, instant)

    def lost(self, drops: Sequence[Drop]) -> tuple[DroppedWrite, ...]:
        """What is missing, each with all that is known of it."""
        parts: dict[int, list[tuple[int, int]]] = {}
        for drop in sorted(drops):
            parts.setdefault(drop.write, []).append(in_file(drop.begin, drop.end))
        return tuple(self._change(write, ranges) for write, ranges in parts.items())

    def _change(self, write: int, ranges: list[tuple[int, int]]) -> DroppedWrite:
        row = self.space.rows[write]
        request, done = row.request, row.request.completed_ns
        plain = row.change is None
        return DroppedWrite(
            request=write,
            kind=_kind_of(row),
            path=self._names.subject(row),
            text=self._names.describe(row, ranges),
            offset=request.offset if plain else 0,
            length=request.length if plain else 0,
            dropped=tuple(ranges) if plain else (),
            submitted_ns=request.submitted_ns,
            completed_ns=None if done == NEVER else done,
            why=self._why(row),
        )

    def _why(self, row: Row) -> str:
        done = row.request.completed_ns
        if done >= self._instant:
            return "it was still in flight"
        later = [sync for sync in self._syncs if sync.request.submitted_ns > done]
        covering = [sync for sync in later if self._covers(sync, row)]
        if any(sync.request.completed_ns >= self._instant for sync in covering):
            return f"the sync of {self._needed(row)} after it was still in flight"
        if covering:
            return "only fdatasync came after it, which leaves names for later"
        needed = self._needed(row)
        text = f"no sync of {needed} came after it"
        begun = (one for one in self._syncs if one.request.submitted_ns <= done)
        if any(one.request.completed_ns > done and self._covers(one, row) for one in begun):
            text = f"the sync of {needed} had begun before it was done, and need not cover it"
        if later:
            names = list(dict.fromkeys(self._names.synced(sync.request) for sync in later))
            more = f" and {len(names) - _SHOWN_OTHERS} more" if len(names) > _SHOWN_OTHERS else ""
            text += f"; the syncs that came were of {', '.join(names[:_SHOWN_OTHERS])}{more}"
        return text

    def _covers(self, sync: Row, row: Row) -> bool:
        synced = sync.request.object
        if not synced:
            return True
        if not isinstance(row.change, NameChange):
            return synced == row.request.object and reaches(sync.request, *span_of(row))
        if self.space.promise is Promise.POSIX:
            return synced == row.change.entries[0][0]
        return synced in row.change.concerns

    def _needed(self, row: Row) -> str:
        if not isinstance(row.change, NameChange):
            return self._names.path(row.request.object)
        parent = self._names.path(row.change.entries[0][0])
        if self.space.promise is Promise.POSIX:
            return parent
        return f"{self._names.subject(row)} or {parent}"

    def events(
        self, lost: Sequence[DroppedWrite], operation: int | None
    ) -> tuple[WitnessEvent, ...]:
        """The lost changes, the syncs since, the ack and the cut."""
        events = [event for one in lost for event in self._of(one)]
        since = min((one.submitted_ns for one in lost), default=self._instant)
        syncs = [sync for sync in self._syncs if sync.request.submitted_ns >= since]
        shown = syncs[:_SHOWN_SYNCS]
        for sync in shown:
            request = sync.request
            call = begun = self._names.sync(request)
            if len(shown) < len(syncs) and sync is shown[-1]:
                begun += f"; {len(syncs) - len(shown)} more syncs follow"
            events.append(WitnessEvent(at_ns=request.submitted_ns, kind="flush", text=begun))
            if request.completed_ns < self._instant:
                text = f"{call} is done"
                events.append(WitnessEvent(at_ns=request.completed_ns, kind="flushed", text=text))
        events += self._ack(operation)
        at = self._instant
        cut = "the power fails" if at == self._recording.record.cut_ns else "the cut of this state"
        events.append(WitnessEvent(at_ns=at, kind="cut", text=cut))
        return tuple(sorted(events, key=lambda event: event.at_ns))

    def _of(self, one: DroppedWrite) -> list[WitnessEvent]:
        events = [
            WitnessEvent(at_ns=one.submitted_ns, kind="submit", text=one.text, request=one.request)
        ]
        if one.completed_ns is not None and one.completed_ns < self._instant:
            text = f"{one.path}: done, and not durable"
            done = one.completed_ns
            events.append(WitnessEvent(at_ns=done, kind="complete", text=text, request=one.request))
        return events

    def _ack(self, operation: int | None) -> list[WitnessEvent]:
        history = self._recording.history
        acks = np.flatnonzero(history.acked == operation) if operation is not None else ()
        return [
            WitnessEvent(
                at_ns=int(history.ack_ns[at]),
                kind="ack",
                text=f"operation {operation} is acknowledged",
            )
            for at in acks[:1]
        ]


def _kind_of(row: Row) -> LostKind:
    if isinstance(row.change, NameChange):
        return "name"
    if isinstance(row.change, SizeChange):
        return "size" if row.change.at_least else "truncation"
    if isinstance(row.change, AttributeChange):
        return "attributes"
    return "zero" if row.kind is RequestKind.ZERO else "write"
