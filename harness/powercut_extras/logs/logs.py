# SPDX-License-Identifier: Apache-2.0
"""dm-log-writes and blklogwrites logs: in and out.

    log = read_log(path, disk_size=size)          logwrites_read.py
    timeline = to_timeline(log, reading=...)      logwrites_timeline.py
    write_log(timeline, path)                     logwrites_write.py

The format is in logwrites_format.py and docs/formats/dm-log-writes.md.  `import_log`
and `export_log` are what the commands of the same names do.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from powercut.model.errors import HostError
from powercut.model.history import History
from powercut.model.named_path import openable
from powercut.model.timeline import Timeline
from powercut.model.units import SECTOR
from powercut_extras.logs.format import Dialect, Flag, LogWrites
from powercut_extras.logs.read import read_log
from powercut_extras.logs.timeline import Reading, history_from_marks, to_timeline
from powercut_extras.logs.write import Exported, write_log

__all__ = [
    "Dialect",
    "Exported",
    "Flag",
    "Imported",
    "LogWrites",
    "Reading",
    "export_log",
    "history_from_marks",
    "import_log",
    "read_log",
    "to_timeline",
    "write_log",
]


@dataclass(frozen=True)
class Imported:
    """A log, its two readings, and what its marks claim.

    A conclusion of SAFE rests on `cautious`, one of LOSSY on `certain`; what only
    `cautious` loses is INCONCLUSIVE, and so is everything if `log.doubts` is not empty.
    The instants of both, and of `history`, are those of the same log and agree.
    """

    log: LogWrites
    cautious: Timeline
    certain: Timeline
    history: History


def import_log(
    path: Path,
    *,
    base: Path,
    dialect: Dialect = Dialect.AUTO,
    atomic_unit: int = SECTOR,
    salvage: bool = False,
    closed: bool = False,
    no_fua: bool = False,
) -> Imported:
    """Reads the log at `path` of a disk that held the image `base` when logging began.

    `base` is a raw image and gives the size of the disk.  The other arguments are those
    of `read_log` and `to_timeline`, and so are the errors.
    """
    try:
        with openable(base).open("rb") as file:
            disk_size = file.seek(0, 2)
    except OSError as error:
        raise HostError(
            f"cannot read the base image {base}: {error.strerror}",
            hint="keep a copy of the disk as it was before logging began; a log holds only changes",
        ) from error
    log = read_log(
        path,
        dialect=dialect,
        disk_size=disk_size,
        salvage=salvage,
        closed=closed,
        no_fua=no_fua,
    )
    cautious = to_timeline(log, reading=Reading.CAUTIOUS, atomic_unit=atomic_unit)
    certain = to_timeline(log, reading=Reading.CERTAIN, atomic_unit=atomic_unit)
    return Imported(log, cautious, certain, history_from_marks(certain.marks))


def export_log(
    timeline: Timeline, history: History, path: Path, *, sector_size: int = SECTOR
) -> Exported:
    """Writes a recording to the new file `path`, for replay-log and its like.

    The acks become marks "ack N", the attempts "attempt N".  Errors as `write_log`.
    """
    return write_log(timeline, path, sector_size=sector_size, history=history)
