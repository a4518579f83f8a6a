# SPDX-License-Identifier: Apache-2.0
"""What an ack waits for on each of several disks, and in which lanes these are drawn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from handmade import Handmade

from powercut.model.operations import OperationHistory
from powercut.model.timeline import DiskRange
from powercut_extras.pages.timeline.source import FILESYSTEM, FLUSHES, Lanes
from powercut_extras.pages.timeline.waits import DiskWait, Waits, waits_of

BOTH = (DiskRange("a", 0, 4096, "first"), DiskRange("b", 4096, 8192, "folder"))


def history(*spans: tuple[int, int, int]) -> OperationHistory:
    """Of each operation its name, attempt and ack."""
    names, tried, acked = (np.array(column, dtype=np.int64) for column in zip(*spans, strict=True))
    return OperationHistory(names, tried, names, acked)


def test_a_disk_that_an_ack_does_not_wait_for_has_no_flush_in_between() -> None:
    """Operation 1 waits for both; 2 for `a` alone: `b` is flushed after its ack."""
    made = Handmade(8192)
    made.write(0, bytes(512), at=110, done=111)
    made.flush(at=112, done=120, disk=(0, 4096))
    made.write(4096, bytes(512), at=125, done=126)
    made.flush(at=130, done=150, disk=(4096, 4096))
    made.write(512, bytes(512), at=230, done=231)
    made.write(4608, bytes(512), at=235, done=236)
    made.flush(at=240, done=260, disk=(0, 4096))
    made.flush(at=265, done=290, disk=(4096, 4096))
    timeline = replace(made.timeline(cut_at=1000), disks=BOTH)
    known = history((1, 100, 160), (2, 200, 280))
    assert waits_of(timeline, known, timeline.requests.completed_ns) == Waits(
        (DiskWait("a", 2, 2, 2, 20, 40), DiskWait("b", 2, 2, 1, 30, 50)), 70
    )


def test_one_disk_and_a_program_without_attempts_have_no_such_table() -> None:
    made = Handmade(8192)
    made.write(0, bytes(512), at=1, done=2)
    timeline = made.timeline(cut_at=10)
    known = history((1, 1, 3))
    assert waits_of(timeline, known, timeline.requests.completed_ns) is None
    nobody = replace(known, attempted=known.attempted[:0], attempt_ns=known.attempt_ns[:0])
    several = replace(timeline, disks=BOTH)
    assert waits_of(several, nobody, timeline.requests.completed_ns) is None


def test_an_operation_that_was_tried_again_waits_since_the_last_attempt() -> None:
    made = Handmade(8192)
    made.write(0, bytes(512), at=50, done=51)
    timeline = replace(made.timeline(cut_at=100), disks=BOTH)
    known = replace(
        history((1, 10, 60)),
        attempted=np.array([1, 1], dtype=np.int64),
        attempt_ns=np.array([10, 40], dtype=np.int64),
    )
    waits = waits_of(timeline, known, timeline.requests.completed_ns)
    assert waits is not None
    assert (waits.ack_ns, waits.disks[0].first_write_ns) == (20, 10)


def test_the_lanes_of_one_disk_stand_together_its_flushes_first() -> None:
    names = [f"disk b: {FILESYSTEM}", "disk a: log", f"disk a: {FLUSHES}", f"disk b: {FLUSHES}"]
    lanes = Lanes([*names, "disk a: log", f"disk a: {FILESYSTEM}"])
    assert lanes.names == [
        f"disk a: {FLUSHES}",
        "disk a: log",
        f"disk a: {FILESYSTEM}",
        f"disk b: {FLUSHES}",
        f"disk b: {FILESYSTEM}",
    ]
    assert lanes.flushes == {0, 3}
    assert lanes.of == [4, 1, 0, 3, 1, 2]
