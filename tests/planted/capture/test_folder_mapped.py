# SPDX-License-Identifier: Apache-2.0
"""Mappings and syncs of other threads in captured folders: faults are found, their twins SAFE."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import folder_mapped
import pytest
from folders_judged import judged_by

from powercut.campaign.folder import CaptureOrder, record_folder
from powercut.crash.folder_rows import Promise
from powercut.model.folder import FolderOp
from powercut.model.observation import Observation
from powercut.model.verdict import Verdict
from powercut.recording.folder import FolderRecording, open_capture
from powercut.store.folder import CaptureDir, CaptureResult

pytestmark = pytest.mark.fuse

WAYS = ("sync", "syncfs", *(["sync32"] if platform.machine() == "x86_64" else []))
"""The last has the number of 32-bit programs on x86."""


def recorded(tmp_path: Path, way: str, seed: int) -> FolderRecording:
    folder = tmp_path / "folder"
    folder.mkdir()
    command = (sys.executable, "-I", "-S", folder_mapped.__file__, way, str(folder))
    order = CaptureOrder(folder, command, ("check",), 0, 120.0, 4096, seed)
    directory = CaptureDir.create(tmp_path / "recording")
    assert record_folder(order, directory).status == 0, directory.console.read_text()
    return open_capture(directory)


def judged(tmp_path: Path, recording: FolderRecording) -> CaptureResult:
    def check(state: Path) -> Observation:
        return Observation((), lines=folder_mapped.found(state).encode())

    scratch = tmp_path / "states"
    return judged_by(check, recording, Promise.JOURNAL, scratch, states=300)


@pytest.mark.parametrize("way", WAYS)
def test_a_sync_of_everything_covers_the_pages_of_a_mapping(tmp_path: Path, way: str) -> None:
    recording = recorded(tmp_path, way, seed=1)
    assert not recording.gaps
    result = judged(tmp_path, recording)
    assert (result.verdict.name, result.control) == ("SAFE", "LOSSY"), (
        result.reasons,
        result.explored.findings,
    )
    begin = int(recording.folder.begin_ns)
    requests = [one for one in recording.folder.requests if one.submitted_ns > begin]
    everything = [one for one in requests if one.op is FolderOp.FLUSH and not one.object]
    assert len(everything) == folder_mapped.OPERATIONS
    pages = [one for one in requests if one.op is FolderOp.WRITE]
    assert len(pages) >= folder_mapped.OPERATIONS
    # The pages come before the sync is done, and the ack after that.
    for sync, ack in zip(everything, recording.history.ack_ns.tolist(), strict=True):
        assert any(one.completed_ns < sync.completed_ns < ack for one in pages)


@pytest.mark.parametrize(("way", "verdict"), [("data-first", "SAFE"), ("header-first", "LOSSY")])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_page_may_be_written_back_before_its_sync(
    tmp_path: Path, way: str, verdict: str, seed: int
) -> None:
    result = judged(tmp_path, recorded(tmp_path, way, seed))
    assert (result.verdict.name, result.control) == (verdict, "LOSSY"), result.reasons
    kinds = {
        finding.kind.value
        for finding in result.explored.findings
        if finding.verdict is Verdict.LOSSY
    }
    assert kinds == ({"not-recovered"} if verdict == "LOSSY" else set())


@pytest.mark.parametrize(("way", "verdict"), [("other-thread", "SAFE"), ("too-early", "LOSSY")])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_sync_takes_its_time(tmp_path: Path, way: str, verdict: str, seed: int) -> None:
    recording = recorded(tmp_path, way, seed)
    result = judged(tmp_path, recording)
    assert (result.verdict.name, result.control) == (verdict, "LOSSY"), result.reasons
    took = [
        (one.completed_ns - one.submitted_ns) / 1e6
        for one in recording.folder.requests
        if one.op is FolderOp.FLUSH and one.completed_ns < recording.record.cut_ns
    ]
    assert min(took) >= 0.2
    assert max(took) > 1
