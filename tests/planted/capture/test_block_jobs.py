# SPDX-License-Identifier: Apache-2.0
"""QEMU's block jobs and snapshots in a captured folder: a layer that acts too early, and its twins.

Operations 1 to 18 are written before the job, 19 to 30 while it runs, 31 is the job, 32 to 37 come
after it (workloads/programs/block_jobs.py).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from block_jobs_recorded import Recorded, recorded

from powercut.campaign.folder import judge_folder
from powercut.crash.folder_rows import Promise
from powercut.explore.request import Budget, ExploreRequest
from powercut.recording.folder import open_capture

pytestmark = pytest.mark.fuse

JOBS = [
    *("mirror", "mirror-blocking", "commit", "commit-active"),
    *("backup", "stream", "snapshot", "internal-snapshot"),
]
IN_THE_SUITE = ("mirror", "backup")


def rows(table: dict[str, object]) -> list[object]:
    """A row a job; those that show nothing of their own run with the campaigns."""
    return [
        pytest.param(job, row, marks=[] if job in IN_THE_SUITE else pytest.mark.campaign, id=job)
        for job, row in table.items()
    ]


def assert_lost(made: Recorded, after: int, lost: list[int], said: str = "") -> None:
    seen = made.seen(after)
    words = " ".join([*seen.bad, *(reason for _, reason in seen.wrong)])
    assert said in words if said else not words, words
    assert made.lost(after, seen) == lost


DURING = list(range(19, 31))
HASTY = {
    # The record names the copy while the old image is the disk.
    "mirror": (30, DURING, "", 31),
    "mirror-blocking": (30, DURING, "", 31),
    "commit-active": (30, DURING, "", 31),
    # The record says that there is a backup, or a snapshot.
    "backup": (30, [31], "not 1 to 18", 37),
    "internal-snapshot": (30, [31], "Can't find snapshot", None),
    # The images below are removed while the disk lies on them.
    "stream": (30, [*range(1, 32)], "top.qcow2 does not open", 37),
    "commit": (30, [*range(1, 32)], "top.qcow2 does not open", 37),
    # The record names what lies below the snapshot; 19 to 24 are written there.
    "snapshot": (30, DURING[6:], "", 31),
}
"""After which ack, what is lost, what the check says, and after which nothing is lost any more."""


@pytest.mark.parametrize(("job", "row"), rows(HASTY))
def test_a_layer_that_acts_before_the_job_is_completed(
    tmp_path: Path, job: str, row: tuple[int, list[int], str, int | None]
) -> None:
    after, lost, said, over = row
    made = recorded(tmp_path, job, "hasty")
    assert_lost(made, 18, [])
    assert_lost(made, after, lost, said)
    if over is not None:
        assert_lost(made, over, [])


@pytest.mark.parametrize("job", ["stream"])
def test_a_layer_that_waits_and_flushes(tmp_path: Path, job: str) -> None:
    made = recorded(tmp_path, job, "flushing")
    for after in (30, 31, 37):
        assert_lost(made, after, [])


def test_a_daemon_that_drops_flushes(tmp_path: Path) -> None:
    made = recorded(tmp_path, "commit-active", "flushing", "unsafe")
    assert set(range(1, 31)) <= set(made.lost(30, made.seen(30)))


EVERY = [
    (job, way) for job in JOBS for way in ("trusting", "flushing")
    if way == "trusting" or job not in ("stream", "commit")  # theirs: the next test
]  # fmt: skip


@pytest.mark.campaign
@pytest.mark.parametrize(("job", "way"), EVERY)
def test_every_job(tmp_path: Path, job: str, way: str) -> None:
    """The table of docs/captured-folders.md."""
    made = recorded(tmp_path, job, way)
    wanted = ExploreRequest(budget=Budget(states=110), seed=3, jobs=2, confirm=False)
    result = judge_folder(
        open_capture(made.recording.directory, Promise.JOURNAL), wanted, state_s=120.0
    )
    assert result.control == "LOSSY"
    broken = job in ("stream", "commit")  # a finding
    assert result.verdict.name == ("LOSSY" if broken else "SAFE"), result


@pytest.mark.campaign
@pytest.mark.parametrize("job", ["stream", "commit"])
def test_the_header_is_written_before_the_tables(tmp_path: Path, job: str) -> None:
    """docs/findings/qemu-block-job-tables.md: QEMU dies just before or after its header's write."""
    made = recorded(tmp_path, job, "flushing")
    header = made.last_header("top.qcow2")
    before = made.at(header.submitted_ns - 1, everything=True)
    after = made.at(header.completed_ns, everything=True)
    assert made.lost(30, before) == []
    copied = set(range(1, 13))  # what lay in the images below
    assert made.lost(30, after)
    assert set(made.lost(30, after)) <= copied
