# SPDX-License-Identifier: Apache-2.0
"""Recordings of raw logs, written by hand, for the explorer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from handmade import Handmade, history
from recordings_made import recording_made

from powercut.crash.evidence import gather
from powercut.explore.disks import DiskMedium
from powercut.explore.explorer import ExplorerRun
from powercut.explore.request import ExploreRequest
from powercut.model.contract import DeviceContract
from powercut.recording.sealed import TrialRecording
from powercut.scenario.plan import Trial, Trigger, TriggerKind
from powercut.scenario.settings import (
    DiskSettings,
    FilesystemSettings,
    Parameters,
    WalSettings,
)
from powercut.store.exploration import ExploreResult
from powercut.store.trial_dir import TrialDir, TrialRecord
from powercut.wal.layout import LayoutKind, WalLayout
from powercut.wal.record import record_bytes
from powercut.workload.wal.promises import WalPromises

RUN_ID = bytes(range(16))
DISK = 64 << 10
RECORD = 512


def run_of(recorded: TrialRecording, **wanted: object) -> ExplorerRun:
    """An exploration of a disk."""
    request = ExploreRequest(**wanted)
    return ExplorerRun(DiskMedium(recorded, request), request)


@dataclass(frozen=True)
class World:
    """A raw log of `slots` records of 512 bytes on a small disk of zeroes."""

    folder: Path
    slots: int = 8

    @property
    def layout(self) -> WalLayout:
        return WalLayout(LayoutKind.RAW, record=RECORD, capacity=self.slots * RECORD)

    def record(self, lsn: int, stream: int = 0) -> bytes:
        """The bytes of record `lsn`."""
        lsns = np.array([lsn], dtype=np.uint64)
        return record_bytes(
            RUN_ID,
            stream,
            lsn,
            prev_lsn=lsn - 1,
            generation=int(self.layout.generations_of(lsns)[0]),
            position=self.layout.position_of(lsn),
            record_size=RECORD,
        )

    def disk(self, **contract: object) -> Handmade:
        """An empty timeline."""
        return Handmade(DISK, DeviceContract(**contract))

    def commits(
        self,
        made: Handmade,
        count: int,
        *,
        early: int = 0,
        group: int = 1,
        flush: bool = True,
    ) -> list[tuple[int, int]]:
        """`count` commits of `group` records each: write, flush, ack; returns the acks.

        Commit k takes the instants from 100 k on; with `early` its ack comes so many
        nanoseconds before the flush is submitted.
        """
        acks = []
        for number in range(1, count + 1):
            at = 100 * number
            for lsn in range((number - 1) * group + 1, number * group + 1):
                offset = self.layout.position_of(lsn)
                made.write(offset, self.record(lsn), at=at + (lsn - 1) % group, done=at + 20)
            if flush:
                made.flush(at=at + 30, done=at + 40)
            acks.append((number * group, at + (30 - early if early else 50)))
        return acks

    def recorded(
        self, made: Handmade, acks: list[tuple[int, int]], **more: object
    ) -> TrialRecording:
        """The recording as the explorer opens it."""
        self.folder.mkdir(exist_ok=True)
        trial = TrialDir(self.folder, self.folder)
        if not trial.base_image.exists():
            trial.base_image.write_bytes(bytes(DISK))
        timeline = made.timeline(**more)
        attempts = [(lsn, max(0, at - 60)) for lsn, at in acks]
        evidence = gather(timeline, history(acks, attempts), RUN_ID, self.layout, deep=True)
        parameters = Parameters(
            disk=DiskSettings(size=2 << 20),
            filesystem=FilesystemSettings(type="raw"),
            workload=WalSettings(
                layout="raw", record=RECORD, align=0, capacity=self.slots * RECORD
            ),
        )
        record = TrialRecord(
            powercut="0",
            scenario="handmade",
            cell="raw",
            parameters=parameters,
            trial=Trial(1, 1, 1, Trigger(TriggerKind.ACKS, 1)),
            run_id=RUN_ID.hex(),
        )
        return recording_made(trial, record, timeline, WalPromises(evidence))

    def explore(self, recorded: TrialRecording, **wanted: object) -> ExploreResult:
        """Explores it."""
        return run_of(recorded, **wanted).explore()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "trial")
