# SPDX-License-Identifier: Apache-2.0
"""place.json: where a recording lies that another host made; beside what that host said of it.

The manifest beside it came with the verdict: what is fetched later has to be what it names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import Field

from powercut.store.files import write_atomic
from powercut.store.record import Record, find_model

PLACE: Final = "place.json"


class Place(Record):
    """Where a recording was made, and whether its verdict was seen to follow from it here."""

    host: str
    """Name of the host in the hosts file."""

    folder: str
    """The recording's folder there, below that of the fleet."""

    seconds: float
    """What the trial took there."""

    tries: int = Field(default=1, ge=1)
    """How often the trial was begun there, as that host says: again after a worker had died."""

    judged_here: bool = False
    """Whether the recording was fetched and judged again here, with the same outcome."""


def read_place(trial: Path) -> Place | None:
    """That of the trial in folder `trial`; None if it was made here.  Raises DamagedRecording."""
    return find_model(trial / PLACE, Place)


def write_place(trial: Path, place: Place) -> None:
    """Writes it into the trial's folder.  Raises HostError."""
    write_atomic(trial / PLACE, place.model_dump_json(indent=1).encode() + b"\n")
