# SPDX-License-Identifier: Apache-2.0
"""confirmation.json: whether a loss was seen again in what was recorded of it."""

from __future__ import annotations

from typing import Final, Literal

from powercut.model.verdict import LsnRange
from powercut.store.files import write_atomic
from powercut.store.record import Record, find_model
from powercut.store.trial_dir import TrialDir

CONFIRMATION_FILE: Final = "confirmation.json"


class Confirmation(Record):
    """The outcome of recovering the disk that a cut left once more."""

    format: Literal["powercut-confirmation/1"] = "powercut-confirmation/1"
    """Name and version of this format."""

    confirmed: bool
    """Whether the same records were lost."""

    how: str
    """What was done, or why not."""

    lsns: tuple[LsnRange, ...] = ()
    """The records that were lost this time."""


def write_confirmation(trial: TrialDir, confirmation: Confirmation) -> None:
    """Writes confirmation.json beside the recording.  Raises HostError."""
    data = confirmation.model_dump_json(indent=1).encode() + b"\n"
    write_atomic(trial.path / CONFIRMATION_FILE, data)


def read_confirmation(trial: TrialDir) -> Confirmation | None:
    """Reads it; None if there is none.  Raises DamagedRecording."""
    return find_model(trial.path / CONFIRMATION_FILE, Confirmation)
