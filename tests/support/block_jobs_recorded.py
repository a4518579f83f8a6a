# SPDX-License-Identifier: Apache-2.0
"""Recordings of QEMU's block jobs (workloads/programs/block_jobs.py) in a captured folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from powercut.campaign.folder import CaptureOrder, check_of, record_folder
from powercut.crash.folder_rows import Promise
from powercut.explore.folder_judge import FolderJudge
from powercut.model.folder import FolderOp, FolderRequest
from powercut.model.observation import Observation
from powercut.model.operations import Sighting
from powercut.paths import ROOT
from powercut.recording.folder import FolderRecording, open_capture
from powercut.recording.state_names import plain_state, resolve_state
from powercut.store.folder import CaptureDir
from powercut.workload.program.claims import sighting_of

PROGRAM = ROOT / "workloads" / "programs" / "block_jobs.py"


class Recorded(NamedTuple):
    """One run of the program, and where its states are made."""

    recording: FolderRecording
    scratch: Path

    @property
    def acked(self) -> list[int]:
        """In the order of the acks."""
        return self.recording.history.acked.tolist()

    def seen(self, operation: int) -> Sighting:
        """What the check says of nothing but what was durable just after this ack."""
        recording = self.recording.under(Promise.POSIX)
        state = resolve_state(recording, f"ack:{operation}")
        with (
            check_of(recording, 600.0) as check,
            FolderJudge(recording, check, self.scratch) as judge,
        ):
            return said_by(judge.observe(judge.space, state))

    def last_header(self, image: str) -> FolderRequest:
        """The last write of an image's header before the layer records that the job is done."""
        requests = self.recording.folder.requests
        made = {r.names[0]: r for r in requests if r.op is FolderOp.CREATE}
        header = [
            r for r in requests
            if r.op is FolderOp.WRITE and r.offset == 0 and r.object == made[image].other
            and r.submitted_ns < made["active.new"].submitted_ns
        ]  # fmt: skip
        return header[-1]

    def at(self, instant: int, *, everything: bool) -> Sighting:
        """What the check says of all that was written by `instant`, or of what was durable."""
        recording = self.recording.under(Promise.POSIX)
        with (
            check_of(recording, 600.0) as check,
            FolderJudge(recording, check, self.scratch) as judge,
        ):
            state = plain_state(judge.space, instant, everything=everything)
            return said_by(judge.observe(judge.space, state))

    def lost(self, operation: int, seen: Sighting) -> list[int]:
        """Those acknowledged by then, in order, that the check does not find.

        It has looked at everything: what it has not seen would be lost.
        """
        assert seen.incomplete == ()
        acked = self.acked[: self.acked.index(operation) + 1]
        return sorted(set(acked) - seen.those_present(acked))


def said_by(observation: Observation) -> Sighting:
    """What a check that came to its end has said."""
    assert observation.recovered, observation.failure
    return sighting_of(observation)


def recorded(tmp_path: Path, job: str, way: str, cache: str = "writeback") -> Recorded:
    """All 37 operations."""
    folder, scratch = tmp_path / "folder", tmp_path / "scratch"
    folder.mkdir()
    scratch.mkdir()
    words = [sys.executable, str(PROGRAM), f"job={job}", f"cache={cache}", f"way={way}"]
    subprocess.run([*words, "setup", str(folder)], check=True)
    order = CaptureOrder(
        folder=folder,
        command=(*words, "run", str(folder)),
        check=(*words, "check", str(folder)),
        acks=0,
        seconds=600.0,
        atomic_unit=4096,
        seed=1,
    )
    directory = CaptureDir.create(tmp_path / "recording")
    record_folder(order, directory)
    made = Recorded(open_capture(directory), scratch)
    assert sorted(made.acked) == list(range(1, 38)), directory.console.read_text()
    return made
