# SPDX-License-Identifier: Apache-2.0
"""The WAL workload as the port has it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from powercut.model.history import History
from powercut.model.timeline import Timeline
from powercut.paths import WAL_BINARY
from powercut.scenario.settings import (
    ControlKind,
    Layout,
    Parameters,
    SyncMode,
    WalSettings,
    wal_settings,
)
from powercut.workload.port import Contents, GoingOn, Run
from powercut.workload.wal import commands
from powercut.workload.wal.promises import WalPromises

_RECOVERY_S = 60.0


class WalWorkload:
    """A log of records, each of which names itself on the disk; what is required is a prefix."""

    def __init__(self, parameters: Parameters) -> None:
        self.settings: WalSettings = wal_settings(parameters)
        self._parameters = parameters

    @property
    def recovery_s(self) -> float:
        """What one recovery with its reader may take, in seconds."""
        return _RECOVERY_S

    def problems(self) -> tuple[str, ...]:
        return ()

    def contents(self, run: Run) -> Contents:
        del run
        segments = self.settings.layout is Layout.SEGMENTS
        folders = (commands.log_path(self._parameters),) if segments else ()
        return Contents({commands.WAL_IN_GUEST: WAL_BINARY}, folders)

    def preparation(self, run: Run) -> tuple[str, ...]:
        del run
        return ()

    def writer(self, run: Run) -> tuple[str, ...]:
        """The writer, which answers pings, so that its acks are dated by the host's clock."""
        return commands.write_arguments(self._parameters, run.run_id, pings=True)

    def writer_after(self, run: Run, acked: int) -> tuple[str, ...]:
        """The writer, from the next record on, in the log that is there."""
        return commands.write_arguments(
            self._parameters, run.run_id, first_lsn=acked + 1, pings=True
        )

    def reader(self, run: Run) -> tuple[str, ...]:
        return commands.read_arguments(self._parameters, run.run_id)

    def reader_on_host(self, reader: Sequence[str], image: Path) -> tuple[str, ...]:
        path = {"path": f"path={image}", "channel": "channel=fd:1"}
        words = (path.get(word.partition("=")[0], word) for word in reader[1:])
        return (str(WAL_BINARY), *words)

    def control(self, kind: ControlKind) -> WalSettings:
        """Without a planted fault; the honest one syncs."""
        changes: dict[str, Any] = {"plant": "none"}
        if kind is ControlKind.HONEST and self.settings.sync is SyncMode.NONE:
            changes["sync"] = SyncMode.FDATASYNC
        return self.settings.model_copy(update=changes)

    def unsynced(self) -> WalSettings:
        """It acknowledges what is only in the guest's page cache."""
        changes = {"plant": "none", "sync": SyncMode.NONE, "direct": False}
        return self.settings.model_copy(update=changes)

    def continuation(self, run: Run, records: int) -> GoingOn:
        """It syncs as it did, and writes with plain system calls, one at a time."""
        return GoingOn(commands.continuation(self._parameters, run.run_id, records))

    def promises_by_wire(self, run: Run, timeline: Timeline, history: History) -> WalPromises:
        """What it claimed, and the writes that carry it."""
        layout = commands.wal_layout(self._parameters)
        return WalPromises.of(timeline, history, run.run_id, layout)
