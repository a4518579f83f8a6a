# SPDX-License-Identifier: Apache-2.0
"""Who takes the sync of a range for that of its file is found in captured folders, and no twin."""

from __future__ import annotations

import runpy
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from folders_judged import judged_by

from bench.lucky_faults import PARTIAL
from powercut.campaign.folder import CaptureOrder, record_folder
from powercut.crash.folder_rows import Promise
from powercut.model.folder import FolderOp
from powercut.model.observation import Observation
from powercut.paths import PROGRAMS
from powercut.recording.folder import FolderRecording, open_capture
from powercut.store.folder import CaptureDir

pytestmark = pytest.mark.fuse

RANGES = str(PROGRAMS / "ranges")
OPERATIONS = 24
PAGE = 4096

RECORDS = {(PAGE + PAGE * (n // 8), PAGE) for n in range(0, OPERATIONS, 8)}
"""Pages that hold the records, eight each."""

HEADER = {(0, 512)}
MAPPED_HEADER = {(0, PAGE)}
WRITTEN = {(PAGE + 512 * n, 512) for n in range(OPERATIONS)}
WHOLE = {(0, 0)}
HALF = {(PAGE * n, PAGE) for n in range(1, OPERATIONS + 1)}
BOTH = {(PAGE * n, 2 * PAGE) for n in range(1, OPERATIONS + 1)}

WAYS = {
    "msync": (MAPPED_HEADER, RECORDS),
    "odsync": (HEADER, WRITTEN),
    "aio": (HEADER, WRITTEN),
    "direct-aio": (set(), WHOLE),
    "aio-sync": (set(), WHOLE),
}
"""What the program syncs with its fault and without: each first byte, and how many."""

NIGHTLY = {
    "msync-second": (MAPPED_HEADER, RECORDS),
    "msync-half": (HALF, BOTH),
    "osync": (HEADER, WRITTEN),
    "rwf-dsync": (HEADER, WRITTEN),
    "append-odsync": (HEADER, WRITTEN),
    "file-range": (set(), WHOLE),
    "uring": (HEADER, WRITTEN),
    "uring-sync": (set(), WHOLE),
    "sendfile": (HEADER, WRITTEN),
}


def test_all_ways_are_tried():
    assert {*WAYS, *NIGHTLY} == set(PARTIAL)


def words(way: str, *options: str) -> list[str]:
    return [RANGES, f"way={way}", f"operations={OPERATIONS}", *options]


def recorded(tmp_path: Path, way: str, seed: int, *options: str) -> FolderRecording:
    folder = tmp_path / "folder"
    folder.mkdir()
    subprocess.run([*words(way), "setup", folder], check=True, env={"POWERCUT_FD": "2"})
    command = (*words(way, *options), "run", str(folder))
    order = CaptureOrder(folder, command, ("check",), 0, 120.0, 4096, seed)
    directory = CaptureDir.create(tmp_path / "recording")
    assert record_folder(order, directory).status == 0, directory.console.read_text()
    recording = open_capture(directory)
    assert not recording.gaps
    assert recording.history.acked.tolist() == list(range(1, OPERATIONS + 1))
    return recording


def synced(recording: FolderRecording) -> Counter[tuple[int, int]]:
    """What the syncs of the file of records were of."""
    log = next(one.other for one in recording.folder.requests if one.names == ("log",))
    begin = int(recording.folder.begin_ns)
    return Counter(
        (one.offset, one.length)
        for one in recording.folder.requests
        if one.op is FolderOp.FLUSH and one.object == log and one.submitted_ns > begin
    )


def checker(way: str) -> Callable[[Path], Observation]:
    """The program's own check, without a process for each state."""
    store_of = runpy.run_path(RANGES)["Store"]

    def check(state: Path) -> Observation:
        store = store_of(str(state), way, False, OPERATIONS)
        lines = "".join(f"= {number}\n" for number in store.found(OPERATIONS))
        return Observation((), lines=lines.encode())

    return check


@pytest.mark.parametrize(
    "way", [*WAYS, *(pytest.param(way, marks=pytest.mark.nightly) for way in NIGHTLY)]
)
def test_a_sync_covers_its_own_range(tmp_path: Path, way: str) -> None:
    of_fault, of_twin = (WAYS | NIGHTLY)[way]
    for options, expected, verdict in (((), of_fault, "LOSSY"), (("honest=1",), of_twin, "SAFE")):
        place = tmp_path / verdict
        place.mkdir()
        recording = recorded(place, way, 1, *options)
        assert set(synced(recording)) == expected
        assert synced(recording).total() == (OPERATIONS if expected else 0)
        scratch = place / "states"
        result = judged_by(checker(way), recording, Promise.JOURNAL, scratch, states=100)
        assert (result.verdict.name, result.control) == (verdict, "LOSSY"), result.reasons
