# SPDX-License-Identifier: Apache-2.0
"""Whether a run that has done what it was asked for goes on: a fault may begin later.

While there is time and room, it does until `_SHARE` of its seconds are used and no new kind of
call (powercut.crash.kinds: a call, and the role of its file) has come in its second half.  A
program that rotates a log seldom is so met with its first rotation, if one is near.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import numpy as np

from powercut.crash.folder import FolderSpace
from powercut.crash.folder_rows import Promise
from powercut.crash.kinds import kinds_of
from powercut.disk.folder_log import read_folder_log
from powercut.model.errors import DamagedRecording
from powercut.model.folder import FolderTimeline
from powercut.model.units import NEVER
from powercut.workload.program.claims import history_of

_SHARE: Final = 0.25
_TIMES: Final = 4
"""How many times the operations that were asked for: each makes every state larger."""

_ROOM: Final = 64 << 20
"""Bytes written: the disk beside has to have room for them, too."""


class Further:
    """Looks after a run that began just now; `log` is that of its folder, without suffixes."""

    def __init__(self, log: Path, *, asked: int, seconds: float) -> None:
        self._log = log
        self._most = _TIMES * asked
        self._until = asked
        self._not_before = time.monotonic() + seconds * _SHARE

    def is_enough(self, acked: int) -> bool:
        """Whether the power may go after so many operations."""
        if acked >= self._most or self._log.with_suffix(".data").stat().st_size >= _ROOM:
            return True
        if acked < self._until or time.monotonic() < self._not_before:
            return False
        try:
            self._until = 2 * operations_before_newest(read_folder_log(self._log))
        except DamagedRecording:  # of what is written just now an event may stand before another
            return False
        return acked >= self._until


def operations_before_newest(folder: FolderTimeline) -> int:
    """How many operations were acknowledged when the newest kind of call came first."""
    history = history_of(folder.said, int(NEVER))
    space = FolderSpace(folder, Promise.JOURNAL, history)
    _, first = np.unique(kinds_of(space).rank, return_index=True)
    if not len(first):
        return 0
    newest = max(space.rows[at].request.submitted_ns for at in first.tolist())
    return int(np.sort(history.ack_ns).searchsorted(newest))
