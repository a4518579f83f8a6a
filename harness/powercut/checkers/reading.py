# SPDX-License-Identifier: Apache-2.0
"""What a reader's extents mean for each required record.

A required record has one fate:

1. INTACT: it stands in its slot, every byte right.
2. ABSENT: nothing of it is in its slot, nor of an older generation.
3. STALE: an older generation is there, of this log or of an earlier one.
4. TORN: parts of it, or of another record, are there.
5. CORRUPT: bytes are there that were never written.
6. MISDIRECTED: it stands in another slot, and not in its own.
7. UNREADABLE: its slot cannot be read, and the disk is at fault.
8. UNSEEN: the reader ended before it came to its slot, or did not read it for a reason that is
   not the disk's (model/failure.py).

A slot that holds a record of another slot counts as ABSENT for the record that belongs
there.  The slots that no required record belongs to are kept apart (`Bystanders`): what
was never promised may be absent, stale, torn or whole.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from powercut.model.exposure import ranges_of
from powercut.model.failure import failure_of_slot
from powercut.model.observation import Extent, Observation
from powercut.model.verdict import LsnRange, merged_ranges
from powercut.wal.layout import SlotState, WalLayout

I64 = npt.NDArray[np.int64]


class Fate(enum.IntEnum):
    """What became of a required record."""

    UNSEEN = 0
    INTACT = 1
    ABSENT = 2
    STALE = 3
    TORN = 4
    CORRUPT = 5
    MISDIRECTED = 6
    UNREADABLE = 7


@dataclass
class Bystanders:
    """What stood in slots that no required record belongs to, as far as it matters.

    Slots for what has no LSN; LSNs for records that were never attempted.
    """

    corrupt_slots: list[LsnRange] = field(default_factory=list)
    emptied_slots: list[LsnRange] = field(default_factory=list)
    unreadable_slots: list[LsnRange] = field(default_factory=list)
    misdirected: list[LsnRange] = field(default_factory=list)
    never_attempted: list[LsnRange] = field(default_factory=list)
    never_attempted_part: list[LsnRange] = field(default_factory=list)


@dataclass(frozen=True)
class LogReading:
    """The fate of each required record; `fate[k]` belongs to LSN `required.first + k`."""

    required: LsnRange | None
    fate: npt.NDArray[np.uint8]
    bystanders: Bystanders
    unread: set[int] = field(default_factory=set)
    """Why slots were not read that the disk is not to blame for: errnos."""

    def lsns(self, *fates: Fate) -> I64:
        """The records with one of `fates`."""
        first = self.required.first if self.required else 1
        return np.asarray(np.flatnonzero(np.isin(self.fate, fates)) + first, dtype=np.int64)

    def ranges(self, *fates: Fate) -> tuple[LsnRange, ...]:
        """The same as ranges."""
        return ranges_of(self.lsns(*fates))

    @property
    def lost(self) -> tuple[LsnRange, ...]:
        """Every required record that is not intact, as far as the reader came."""
        return ranges_of(
            self.lsns(*(fate for fate in Fate if fate not in (Fate.INTACT, Fate.UNSEEN)))
        )

    @property
    def intact(self) -> tuple[LsnRange, ...]:
        """Every required record that came back."""
        return self.ranges(Fate.INTACT)


def reading_of(
    required: LsnRange | None, attempted: int, observation: Observation, layout: WalLayout
) -> LogReading:
    """Sorts what the reader saw by who asks for it.

    `attempted` is the highest LSN that was attempted.  Raises `ValueError` for extents
    that no reader can have seen.
    """
    count = len(required) if required else 0
    # What a reader that came to its end did not mention is not there.
    unseen = Fate.ABSENT if observation.complete else Fate.UNSEEN
    reading = LogReading(required, np.full(count, unseen, dtype=np.uint8), Bystanders())
    elsewhere: list[LsnRange] = []
    for extent in observation.extents:
        if extent.slot < 0 or extent.count < 1:
            raise ValueError(f"impossible extent: {extent}")
        for part, index in _parts(extent, required, layout):
            if part.state is SlotState.UNREADABLE and not _is_disks_fault(part):
                _leave_unseen(reading, part, index)
            else:
                _place(reading, part, index, attempted, layout, elsewhere)
    _note_misdirected(reading, elsewhere)
    return reading


def _parts(
    extent: Extent, required: LsnRange | None, layout: WalLayout
) -> Iterator[tuple[Extent, int | None]]:
    """Cuts an extent where required records begin and end, in the order of slots.

    With each part comes the index of the required record that its first slot belongs
    to, rising by one per slot, or None.
    """
    slot, end = extent.slot, extent.slot + extent.count
    while slot < end:
        index, until = _required_at(slot, required, layout)
        until = min(until, end)
        lsn = extent.lsn + slot - extent.slot if extent.lsn else 0
        yield Extent(slot, until - slot, extent.state, lsn, extent.detail), index
        slot = until


def _required_at(slot: int, required: LsnRange | None, layout: WalLayout) -> tuple[int | None, int]:
    """Index of the required record of `slot`, if any, and the slot where that changes."""
    forever = 2**63
    if required is None:
        return None, forever
    count, first = len(required), layout.slot_of(required.first)
    if layout.wraps:
        if slot >= layout.slots:
            return None, forever
        index = (slot - first) % layout.slots
        # The records go round at the last slot; index 0 is at `first`.
        if index < count:
            return index, min(slot + count - index, layout.slots)
        return None, first if slot < first else layout.slots
    index = slot - first
    if index < 0:
        return None, first
    return (index, first + count) if index < count else (None, forever)


def _is_disks_fault(unreadable: Extent) -> bool:
    return failure_of_slot(unreadable.detail).is_finding


def _leave_unseen(reading: LogReading, part: Extent, index: int | None) -> None:
    reading.unread.add(part.detail)
    if index is not None:
        reading.fate[index : index + part.count] = Fate.UNSEEN


_FATES = {
    SlotState.ABSENT: Fate.ABSENT,
    SlotState.STALE: Fate.STALE,
    SlotState.TORN: Fate.TORN,
    SlotState.CORRUPT: Fate.CORRUPT,
    SlotState.UNREADABLE: Fate.UNREADABLE,
    SlotState.MISDIRECTED: Fate.ABSENT,  # for the record that should be here
}


def _place(
    reading: LogReading,
    part: Extent,
    index: int | None,
    attempted: int,
    layout: WalLayout,
    elsewhere: list[LsnRange],
) -> None:
    records = LsnRange(part.lsn, part.lsn + part.count - 1) if part.lsn else None
    slots = LsnRange(part.slot, part.slot + part.count - 1)
    others = reading.bystanders
    state = SlotState(part.state)
    if state is SlotState.INTACT and (not records or layout.slot_of(records.first) != part.slot):
        state = SlotState.MISDIRECTED  # whatever the reader called it
    if records and records.last > attempted:
        claimed = LsnRange(max(records.first, attempted + 1), records.last)
        # Only of an intact slot the reader has seen every byte of the record it names.
        if part.state is SlotState.INTACT:
            others.never_attempted.append(claimed)
        elif state in (SlotState.TORN, SlotState.MISDIRECTED):
            others.never_attempted_part.append(claimed)
    if state is SlotState.MISDIRECTED and records:
        elsewhere.append(records)
    if index is not None:
        fate = _FATES.get(state)
        if fate is None:
            # Whole, of this log, in its slot: the record itself, or one a log length away.
            expected = reading.required.first + index if reading.required else 0
            fate = Fate.INTACT if part.lsn == expected else Fate.STALE
            if part.lsn > expected:
                fate = Fate.ABSENT  # something newer than was ever attempted
        reading.fate[index : index + part.count] = fate
    elif state is SlotState.CORRUPT:
        others.corrupt_slots.append(slots)
    elif state is SlotState.ABSENT:
        # No write has come this far: what was there before the run has to be there.
        first, last = max(slots.first, attempted), min(slots.last, layout.earlier - 1)
        if first <= last:
            others.emptied_slots.append(LsnRange(first, last))
    elif state is SlotState.UNREADABLE:
        others.unreadable_slots.append(slots)


def _note_misdirected(reading: LogReading, elsewhere: list[LsnRange]) -> None:
    """Tells the required records that turned up elsewhere from the others."""
    stray: list[LsnRange] = []
    first = reading.required.first if reading.required else 1
    count = len(reading.fate)
    for records in elsewhere:
        low, high = max(records.first, first), min(records.last, first + count - 1)
        if low > high:
            stray.append(records)
            continue
        fate = reading.fate[low - first : high + 1 - first]  # a view
        missing = np.isin(fate, (Fate.ABSENT, Fate.STALE, Fate.UNSEEN))
        known = ~missing & (fate != Fate.MISDIRECTED)
        fate[missing] = Fate.MISDIRECTED
        stray += ranges_of(np.flatnonzero(known) + low)
        stray += [LsnRange(records.first, low - 1)] if records.first < low else []
        stray += [LsnRange(high + 1, records.last)] if records.last > high else []
    reading.bystanders.misdirected += merged_ranges(stray)
