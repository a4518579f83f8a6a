# SPDX-License-Identifier: Apache-2.0
"""Faults that begin late in a run, in a captured folder: met, or the verdict says how far."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from far_program import RECORD
from folders_judged import judged_by

from powercut.campaign import folder as further
from powercut.campaign.folder import CaptureOrder, Further, record_folder
from powercut.crash.folder_rows import Promise
from powercut.model.observation import Observation
from powercut.model.reached import FilesMet
from powercut.model.verdict import Verdict
from powercut.recording.folder import FolderRecording, open_capture
from powercut.store.folder import CaptureDir, CaptureResult

pytestmark = pytest.mark.fuse

PROGRAM = Path(__file__).parents[2] / "support" / "far_program.py"
STATES = 100


def recorded(
    tmp_path: Path, fault: str, at: int, count: int, *, acks: int = 0, goes_on: bool = False
) -> FolderRecording:
    """A run of so many operations, cut when it has ended, or after `acks`."""
    folder = tmp_path / "folder"
    folder.mkdir()
    program = (sys.executable, "-I", "-S", str(PROGRAM), fault, str(at), str(count), str(folder))
    directory = CaptureDir.create(tmp_path / "recording")
    order = CaptureOrder(
        folder=folder,
        command=program,
        check=("check",),
        acks=acks,
        seconds=240.0,
        atomic_unit=4096,
        seed=1,
        goes_on=goes_on,
    )
    record_folder(order, directory)
    return open_capture(directory)


def numbers_in(state: Path) -> Observation:
    """The check: all whole records of the log, of which the first may be a range."""
    log = state / "log"
    data = log.read_bytes() if log.exists() else b""
    records = [data[at : at + RECORD] for at in range(0, len(data), RECORD)]
    found = [f"= {one.decode().strip()}\n" for one in records if one.strip(b"\0")]
    return Observation((), lines="".join(found).encode())


def judged(tmp_path: Path, recording: FolderRecording) -> CaptureResult:
    return judged_by(numbers_in, recording, Promise.JOURNAL, tmp_path / "states", states=STATES)


@pytest.mark.parametrize(
    ("fault", "at", "count", "verdict", "size", "met"),
    [
        ("sync", 600, 599, Verdict.SAFE, 599, FilesMet(0, 0, 0, 0, 0)),
        ("sync", 600, 630, Verdict.LOSSY, 630, FilesMet(0, 0, 0, 0, 0)),
        ("compaction", 64 << 10, 255, Verdict.SAFE, 255, FilesMet(0, 0, 0, 0, 0)),
        ("compaction", 64 << 10, 265, Verdict.LOSSY, 266, FilesMet(1, 0, 1, 1, 0)),
        ("honest-compaction", 64 << 10, 265, Verdict.SAFE, 266, FilesMet(1, 0, 1, 1, 0)),
    ],
)
def test_a_late_fault_is_found_by_a_run_that_comes_to_it_and_another_says_where_it_ended(
    tmp_path: Path,
    fault: str,
    at: int,
    count: int,
    verdict: Verdict,
    size: int,
    met: FilesMet,
) -> None:
    result = judged(tmp_path, recorded(tmp_path, fault, at, count))
    assert (result.verdict, result.reasons) == (verdict, ())
    assert (result.reached.operations, result.reached.size) == (count, size * RECORD)
    assert result.reached.files == met
    assert result.reached.seconds == result.run_s


def test_a_run_goes_on_until_its_second_half_has_met_no_new_kind_of_call(tmp_path: Path) -> None:
    """Its log is replaced at operation 30 and again at 59; in turn, so that kinds come until 31."""
    log = recorded(tmp_path, "honest-compaction", 30 * RECORD, 61).directory.log
    assert not Further(log, asked=40, seconds=0.0).is_enough(39)
    assert not Further(log, asked=40, seconds=0.0).is_enough(45)
    assert Further(log, asked=40, seconds=0.0).is_enough(160)
    assert not Further(log, asked=400, seconds=1000.0).is_enough(400)


def test_a_run_that_meets_nothing_new_does_not_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = recorded(tmp_path, "none", 0, 45).directory.log
    assert Further(log, asked=40, seconds=0.0).is_enough(40)
    assert not Further(log, asked=40, seconds=1000.0).is_enough(40)
    monkeypatch.setattr(further, "_ROOM", 45 * RECORD)
    assert Further(log, asked=40, seconds=1000.0).is_enough(40)


def test_a_run_that_is_recorded_goes_on_while_it_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(further, "_SHARE", 0.0)
    recording = recorded(tmp_path, "honest-compaction", 30 * RECORD, 100_000, acks=40, goes_on=True)
    # The newest kind of call comes with operation 30, after 29 acks.
    assert len(recording.history.acked) >= 2 * 29
    assert recording.gaps == ()
