# SPDX-License-Identifier: Apache-2.0
"""witness.json of a captured folder: the fewest lost writes that still lose something, by file.

Instants are nanoseconds on the clock of the recording; offsets and lengths bytes of the file.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from powercut.model.verdict import FindingKind, LsnRange
from powercut.store.files import write_atomic
from powercut.store.folder import CaptureDir
from powercut.store.record import Record, find_model
from powercut.store.witness import WitnessEvent

NAME: Final = "witness.json"

LostKind = Literal["write", "zeroes", "size", "truncation", "name", "attributes"]


class LostChange(Record):
    """One write, or one change of a size or a name, that did not survive, or not whole."""

    request: int
    """Its number in the crash state."""

    kind: LostKind

    path: str
    """The file or folder, below the captured folder."""

    text: str
    """What is missing, in words."""

    offset: int
    length: int

    dropped: tuple[tuple[int, int], ...]
    """Of a write the bytes of the file that are missing, as (begin, end)."""

    submitted_ns: int

    completed_ns: int | None
    """None if it never completed."""

    why: str
    """Why the host was allowed to lose it at that instant."""


class FolderWitness(Record):
    """The document."""

    format: Literal["powercut-folder-witness/1"] = "powercut-folder-witness/1"
    powercut: str

    start: str
    """The state from which the search began."""

    state: str
    """The name of the witness among the states of the recording."""

    crash_state: dict[str, Any]
    """The witness itself (powercut.recording.folder_state)."""

    promise: Literal["posix", "journal"]
    instant_ns: int
    start_ns: int
    """The instant from which times are told."""

    lost: tuple[LsnRange, ...]
    """Operations that were acknowledged, and that the witness loses."""

    kinds: tuple[FindingKind, ...]
    message: str

    volatile: int
    """Writes and changes that the host was free to lose at that instant."""

    dropped_before: int
    """How many the state lacked from which the search began."""

    dropped: tuple[LostChange, ...]

    out_of_order: int = 0
    """Writes that came to the medium out of order."""

    minimal: bool
    """True if every one of `dropped`, if it had survived whole, would have saved the operation;
    false where the budget ended the search or a state could not be judged."""

    tests: int
    """How many states were checked."""

    events: tuple[WitnessEvent, ...]
    cause: str
    """One sentence for a person."""


def write_folder_witness(directory: CaptureDir, witness: FolderWitness) -> None:
    """Writes witness.json; durable on return.  Raises HostError."""
    write_atomic(directory.path / NAME, witness.model_dump_json(indent=1).encode() + b"\n")


def find_folder_witness(directory: CaptureDir) -> FolderWitness | None:
    """Reads witness.json; None if there is none.  Raises DamagedRecording."""
    return find_model(directory.path / NAME, FolderWitness)
