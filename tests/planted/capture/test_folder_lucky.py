# SPDX-License-Identifier: Apache-2.0
"""Who relies on quick syncs, or on being alone, in a captured folder: found, and the twins SAFE."""

from __future__ import annotations

import os
import runpy
import subprocess
from pathlib import Path

import pytest
from folders_judged import judged_by

from bench.lucky_faults import IMPATIENT, command
from powercut.campaign.folder import CaptureOrder, record_folder
from powercut.crash.folder_rows import Promise
from powercut.model.folder import FolderOp
from powercut.model.observation import Observation
from powercut.paths import PROGRAMS
from powercut.recording.folder import FolderRecording, open_capture
from powercut.store.folder import CaptureDir

pytestmark = pytest.mark.fuse

SLOW_NS = 50_000_000


def recorded(tmp_path: Path, way: str, *, honest: bool, operations: int) -> FolderRecording:
    folder = tmp_path / "folder"
    words = (*command(way, honest=honest), f"operations={operations}")
    settings = {"POWERCUT_FD": "1", "PATH": os.environ["PATH"]}
    subprocess.run([*words, "setup", folder], check=True, env=settings)
    order = CaptureOrder(folder, (*words, "run", str(folder)), ("check",), 0, 120.0, 4096, 1)
    directory = CaptureDir.create(tmp_path / "recording")
    assert record_folder(order, directory).status == 0, directory.console.read_text()
    return open_capture(directory)


def verdict(tmp_path: Path, recording: FolderRecording, way: str) -> tuple[str, str | None]:
    lucky = runpy.run_path(str(PROGRAMS / "lucky"))
    kind = lucky["Impatient" if way in IMPATIENT else "Alone"]

    def check(state: Path) -> Observation:
        found = kind(str(state), way, honest=True).found()
        return Observation((), lines="".join(f"= {number}\n" for number in found).encode())

    result = judged_by(check, recording, Promise.JOURNAL, tmp_path / "states", states=300)
    return result.verdict.name, result.control


@pytest.mark.parametrize(("honest", "expected"), [(False, "LOSSY"), (True, "SAFE")])
def test_an_ack_that_does_not_wait_for_its_sync_is_found(
    tmp_path: Path, honest: bool, expected: str
) -> None:
    """It waits for 30 ms, which is enough until a sync is slow: of each 50 one is."""
    recording = recorded(tmp_path, "flag", honest=honest, operations=150)
    begin = int(recording.folder.begin_ns)
    requests = [one for one in recording.folder.requests if one.submitted_ns > begin]
    syncs = [one for one in requests if one.op is FolderOp.FLUSH]
    slow = [one.completed_ns - one.submitted_ns >= SLOW_NS for one in syncs]
    assert len(syncs) == 150
    assert all(any(slow[at : at + 50]) for at in range(0, 150, 50))
    assert verdict(tmp_path, recording, "flag") == (expected, "LOSSY")


@pytest.mark.parametrize(("honest", "expected"), [(False, "LOSSY"), (True, "SAFE")])
def test_a_removal_before_what_replaces_it_is_synced_is_found(
    tmp_path: Path, honest: bool, expected: str
) -> None:
    """No neighbour is needed: a folder's states have any change of names that may have come."""
    recording = recorded(tmp_path, "unlink", honest=honest, operations=40)
    assert verdict(tmp_path, recording, "unlink") == (expected, "LOSSY")
