# SPDX-License-Identifier: Apache-2.0
"""witness.json: the smallest set of writes whose loss loses something, and why it could be lost.

It lies beside the recording and outside of its seal, since it follows from it.
Instants are nanoseconds on the clock of the recording, offsets and lengths bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

from powercut.model.verdict import Confirmed, FindingKind, LsnRange
from powercut.store.files import write_atomic
from powercut.store.record import Record, find_model

WITNESS_FORMAT: Final = "powercut-witness/1"
WITNESS: Final = "witness.json"


class WitnessPart(Record):
    """A stretch of a write, and what lies there."""

    begin: int
    end: int
    what: str


LostKind = Literal["write", "zero", "discard", "size", "truncation", "name", "attributes"]


class DroppedWrite(Record):
    """One write, or one change of a captured folder, that did not survive, or not whole."""

    request: int
    """Its number in the disk log, or among the changes of the folder, from 0."""

    kind: LostKind

    path: str = ""
    """Of a captured folder the file or folder below it."""

    text: str = ""
    """Of a captured folder what is missing, in words."""

    fua: bool = False

    offset: int
    """Where it begins, on the disk or in the file; it has `length` bytes."""

    length: int

    dropped: tuple[tuple[int, int], ...]
    """What is missing, as (begin, end) there."""

    epoch: int = 0
    """How many flushes were submitted before it."""

    submitted_ns: int

    completed_ns: int | None
    """None if it never completed."""

    why: str
    """Why disk or host were allowed to lose it at that instant."""

    parts: tuple[WitnessPart, ...] = ()
    """What stands in what is missing."""


class WitnessEvent(Record):
    """Something on the time line."""

    at_ns: int
    kind: Literal["submit", "complete", "flush", "flushed", "ack", "cut"]
    text: str
    request: int | None = None


class Witness(Record):
    """The document."""

    format: Literal["powercut-witness/1"] = WITNESS_FORMAT
    powercut: str
    recording: str

    start: str
    """The state from which the search began, as its user named it."""

    state: str
    """The name of the witness among the states of the recording."""

    crash_state: dict[str, Any]
    """The witness itself (format powercut-state/1)."""

    instant_ns: int
    start_ns: int
    """The instant from which times are told."""

    promise: Literal["", "posix", "journal"] = ""
    """Of a captured folder what its host promises of names; empty of a disk."""

    imported: bool = False
    """True if instants are places in the order of a foreign log and no times."""

    required: LsnRange | None
    lost: tuple[LsnRange, ...]
    """What the witness loses of that."""

    unit: Literal["record", "operation", "mark"] = "record"
    """What the workload acknowledges."""

    kinds: tuple[FindingKind, ...]
    message: str

    volatile: int
    """Writes and changes that disk or host were free to lose at that instant."""

    dropped_before: int
    """How many the state lacked from which the search began."""

    dropped: tuple[DroppedWrite, ...]
    """What the witness lacks of all that was issued; empty if nothing."""

    out_of_order: int = 0
    """Writes that came to the medium out of order."""

    minimal: bool
    """True if every one of `dropped`, if it had survived whole, would have saved the record;
    false where the budget ended the search or a state could not be judged."""

    tests: int
    engine: str

    engine_reason: str = ""
    """Why a faster engine was not taken; empty if there is none."""

    confirmed: Confirmed = "not tried"
    """Whether the recorded kernel, in a guest, makes the same of the witness."""

    confirmation: str = ""
    """What it said instead, or why it was not asked."""

    events: tuple[WitnessEvent, ...]
    cause: str
    """One sentence for a person."""


def write_witness(folder: Path, witness: Witness) -> None:
    """Writes witness.json beside a recording; durable on return.  Raises HostError."""
    write_atomic(folder / WITNESS, witness.model_dump_json(indent=1).encode() + b"\n")


def read_witness(folder: Path) -> Witness | None:
    """Reads witness.json; None if there is none.  Raises DamagedRecording."""
    return find_model(folder / WITNESS, Witness)
