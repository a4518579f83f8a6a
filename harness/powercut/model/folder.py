# SPDX-License-Identifier: Apache-2.0
"""Everything that happened in a captured folder, on one clock."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.model.operations import Packet
from powercut.model.units import NEVER, Instant

ROOT_OBJECT: Final = 1
"""The number of the folder itself."""


class FolderOp(enum.IntEnum):
    """What a request asks for.  The numbers are those of the log."""

    WRITE = 1
    ZERO = 2
    FLUSH = 4
    TRUNCATE = 5
    CREATE = 6
    MKDIR = 7
    SYMLINK = 8
    LINK = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    GROW = 13
    ATTRIBUTES = 14
    PIPE = 15
    SOCKET = 16


LEAVES: Final = frozenset({FolderOp.CREATE, FolderOp.SYMLINK, FolderOp.PIPE, FolderOp.SOCKET})
"""What makes an object that may have several names."""

MAKING: Final = LEAVES | {FolderOp.MKDIR}
"""What makes an object."""

NAMING: Final = MAKING | {FolderOp.LINK, FolderOp.UNLINK, FolderOp.RMDIR, FolderOp.RENAME}
"""What changes names."""


OWN: Final = -1
"""As an owner or a group: that of the user who makes the state."""


@dataclass(frozen=True)
class Attributes:
    """What a file or folder has besides its contents; None for what is not known, or not changed.

    Times are nanoseconds since 1970; `xattrs` are name and value, None for one that was removed.
    """

    mode: int | None = None
    owner: tuple[int, int] | None = None
    access_ns: int | None = None
    change_ns: int | None = None
    xattrs: tuple[tuple[str, bytes | None], ...] = ()

    def over(self, older: Attributes) -> Attributes:
        """These, and what is not among them as it was before."""
        xattrs = dict(older.xattrs) | dict(self.xattrs)
        return Attributes(
            mode=older.mode if self.mode is None else self.mode,
            owner=older.owner if self.owner is None else self.owner,
            access_ns=older.access_ns if self.access_ns is None else self.access_ns,
            change_ns=older.change_ns if self.change_ns is None else self.change_ns,
            xattrs=tuple(sorted((name, value) for name, value in xattrs.items())),
        )


@dataclass(frozen=True)
class FolderRequest:
    """One request.  Offsets, lengths and sizes are bytes.

    `object` is the file that is written, truncated or synced, what has other attributes, or the
    folder whose names change; 0 for a sync of everything.  A sync with a `length` is of those bytes
    of its file, as msync is and what a synchronous write ends with.  `other` is the object that is
    made or linked, or the folder that a rename goes to.  `names` are the name, and the target of a
    symbolic link or the new name.  `size` is the file's new size, for TRUNCATE and GROW.  `born`
    are attributes that the object was made with.  `completed_ns` is NEVER for what was in flight
    at the cut, or failed.
    """

    op: FolderOp
    object: int
    submitted_ns: int
    completed_ns: int = int(NEVER)
    other: int = 0
    offset: int = 0
    length: int = 0
    size: int = 0
    names: tuple[str, ...] = ()
    attributes: Attributes | None = None
    born: bool = False
    at_once: bool = False  # O_DSYNC or O_SYNC: durable when it completes
    data_only: bool = False  # fdatasync
    exchange: bool = False
    data_offset: int = -1


@dataclass(frozen=True)
class FolderTimeline:
    """A captured folder's recording.

    `requests` are in the order of their submission; those submitted before `begin_ns` are what it
    held at first.  `data` holds the payloads.  `said` is what the program wrote to its
    POWERCUT_FD, with the instants.  `realtime_ns` is what the clock of files had more than that of
    the recording.  `complete` is False if the log was not closed in order.
    """

    requests: tuple[FolderRequest, ...]
    data: npt.NDArray[np.uint8]
    begin_ns: Instant
    atomic_unit: int
    said: tuple[Packet, ...] = ()
    cut_ns: Instant | None = None
    marks: tuple[tuple[Instant, str], ...] = ()
    complete: bool = True
    realtime_ns: int = 0

    def payload(self, request: FolderRequest) -> npt.NDArray[np.uint8]:
        """The bytes that a write carries."""
        return self.data[request.data_offset : request.data_offset + request.length]
