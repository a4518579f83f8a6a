# SPDX-License-Identifier: Apache-2.0
"""Sealed recordings of a raw log, made without a guest: a real disk, a real reader, real files.

The guest is played: what it writes goes to the capture disk by NBD, what it claims is stamped
into a history file as the channel does it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from nbd_client import NbdClient
from patience import AMPLE_S

from powercut.channel.history_file import HistoryWriter
from powercut.channel.wire import Message, MessageType, encode
from powercut.disk.capture import CaptureDisk
from powercut.model.contract import CutKind, CutPolicy
from powercut.model.observation import Observation
from powercut.recording.sealed import SealedTrial
from powercut.rig import commands
from powercut.rig.host_reader import read_on_host
from powercut.scenario.plan import Trial, Trigger, TriggerKind
from powercut.scenario.settings import (
    CutSettings,
    DiskSettings,
    FilesystemSettings,
    Parameters,
    WalSettings,
)
from powercut.store.trial_dir import TrialDir, TrialRecord, new_recording
from powercut.store.trial_result import TrialResult
from powercut.verdict.judge import judge_recording
from powercut.wal.layout import WalLayout
from powercut.wal.record import record_bytes
from powercut.workload.wal.commands import wal_layout

RUN_ID = bytes(range(16))
RECORD = 512
SLOTS = 64


def parameters(disk: dict[str, object], cut: dict[str, object]) -> Parameters:
    """Those of a raw log of 64 records of 512 bytes."""
    return Parameters(
        disk=DiskSettings(size=2 << 20, **disk),
        filesystem=FilesystemSettings(type="raw"),
        workload=WalSettings(layout="raw", record=RECORD, align=0, capacity=SLOTS * RECORD),
        cut=CutSettings(**cut),
    )


@dataclass
class PlayedTrial:
    """One trial while it is made.  `commit` does what an honest workload does."""

    directory: TrialDir
    settings: Parameters
    history: HistoryWriter
    client: NbdClient
    disk: CaptureDisk
    lsn: int = 0
    answers_pings: bool = True
    guest_facts: dict[str, str] = field(default_factory=dict)

    @property
    def layout(self) -> WalLayout:
        return wal_layout(self.settings)

    def record(self, lsn: int) -> bytes:
        lsns = np.array([lsn], dtype=np.uint64)
        return record_bytes(
            RUN_ID, 0, lsn, prev_lsn=lsn - 1, generation=int(self.layout.generations_of(lsns)[0]),
            position=self.layout.position_of(lsn), record_size=RECORD,
        )  # fmt: skip

    def say(self, kind: MessageType, **fields: object) -> None:
        message = encode(Message(kind, guest_ns=time.monotonic_ns(), **fields))
        self.history.append(time.monotonic_ns(), message)
        if self.answers_pings and kind is not MessageType.PONG:  # at once, and by this clock
            self.say(MessageType.PONG, value=time.monotonic_ns())

    def write(self, data: bytes | None = None, *, attempt: bool = True) -> None:
        """Attempts the next record and writes it, or `data` in its place."""
        self.lsn += 1
        if attempt:
            self.say(MessageType.ATTEMPT, lsn=self.lsn)
        place = self.layout.position_of(self.lsn)
        self.client.write(place, self.record(self.lsn) if data is None else data)

    def ack(self) -> None:
        self.say(MessageType.ACK, lsn=self.lsn)

    def commit(self, count: int = 1) -> None:
        for _ in range(count):
            self.write()
            self.client.flush()
            self.ack()


Play = Callable[[PlayedTrial], None]


@dataclass
class Played:
    """A finished trial."""

    directory: TrialDir

    def judged(self) -> TrialResult:
        return judge_recording(SealedTrial(self.directory))


@pytest.fixture
def played(tmp_path: Path) -> Callable[..., Played]:
    """Makes a trial: `play` is what the guest does until the power goes.

    `observe` makes an observation of the one that the reader gave, `end` says whether the
    guest's side was read to its end, `close` whether the disks' logs are closed in order.
    """
    made = 0

    def make(
        play: Play,
        *,
        disk: dict[str, object] | None = None,
        observe: Callable[[Observation], Observation] = lambda seen: seen,
        end: bool = True,
        trouble: str = "",
        mark_after_cut: str = "",
        guest_facts: dict[str, str] | None = None,
        **cut: object,
    ) -> Played:
        nonlocal made
        made += 1
        run = tmp_path / f"run{made}"
        directory = TrialDir(run / "trial", run)
        directory.path.mkdir(parents=True)
        settings = parameters(disk or {}, cut)
        directory.base_image.write_bytes(bytes(settings.disk.size))
        promised = commands.promised_facts(settings.machine)
        directory.write_record(
            TrialRecord(
                powercut="0", scenario="played", cell="raw", parameters=settings,
                trial=Trial(1, 1, 1, Trigger(TriggerKind.ACKS, 1)), run_id=RUN_ID.hex(),
                recording=new_recording(), trouble=trouble,
                guest_facts=dict(promised) if guest_facts is None else guest_facts,
            )
        )  # fmt: skip
        binding = directory.read_binding()
        config = commands.capture_config(
            settings, binding, base=directory.base_image, log=directory.disk_log, sockets=None
        )
        medium = run / "medium.img"
        with CaptureDisk(replace(config, writes=(run,))) as served:
            with (
                NbdClient(served.socket) as client,
                HistoryWriter(directory.history, binding.digest) as history,
            ):
                play(PlayedTrial(directory, settings, history, client, served))
                if end:
                    history.append(time.monotonic_ns(), b"")
            lost = settings.cut.kind is CutKind.POWER_LOSS
            policy = settings.cut.policy if lost else CutPolicy.KEEP
            served.cut(policy, 7, directory.recovery_log, timeout_s=AMPLE_S)
            if mark_after_cut:
                served.mark(mark_after_cut)
            served.snapshot(medium)
        seen = read_on_host(settings, RUN_ID, medium, timeout_s=AMPLE_S)
        directory.write_observation(observe(seen))
        directory.seal_recording()
        return Played(directory)

    return make
