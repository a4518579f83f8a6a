# SPDX-License-Identifier: Apache-2.0
"""files.json: where the files of a recording lay on its disk, for names of lost writes.

It lies beside the recording and outside of its seal, since it follows from it.  It names, and no
verdict rests on it.  Numbers are bytes,
instants nanoseconds on the clock of the recording.
"""

from __future__ import annotations

from typing import Final, Literal

from powercut.store.files import write_atomic
from powercut.store.record import Record, find_model
from powercut.store.trial_dir import TrialDir

FILE_MAP_FORMAT: Final = "powercut-files/1"
_NAME: Final = "files.json"


class MappedFile(Record):
    """A file or a folder."""

    path: str
    """Below the mount point; empty for the root folder."""

    folder: bool = False

    extents: tuple[tuple[int, int, int], ...]
    """Where it lies: (on the disk, in the file, how many bytes)."""


class FilesAt(Record):
    """What the file system held after recovery of a cut at `instant` that lost nothing issued."""

    instant: int
    files: tuple[MappedFile, ...]


class FileMaps(Record):
    """All of them, in the order of their instants."""

    format: Literal["powercut-files/1"] = FILE_MAP_FORMAT
    """Format of this document."""

    maps: tuple[FilesAt, ...]

    problem: str = ""
    """Why some could not be had; empty if all were."""


def write_file_maps(trial: TrialDir, maps: FileMaps) -> None:
    """Writes files.json beside the recording.  Raises HostError."""
    write_atomic(trial.path / _NAME, maps.model_dump_json().encode() + b"\n")


def read_file_maps(trial: TrialDir) -> FileMaps | None:
    """Reads it; None if there is none.  Raises DamagedRecording."""
    return find_model(trial.path / _NAME, FileMaps)
