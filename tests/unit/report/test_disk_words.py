# SPDX-License-Identifier: Apache-2.0
"""Of several disks the one that is to blame is named, and no other."""

from __future__ import annotations

from dataclasses import replace

from handmade import Handmade

from powercut.model.timeline import DiskRange
from powercut.report.explained import blamed
from powercut.store.trial_result import DiskShare
from powercut.verdict.judge import disk_shares


def share(name: str, writes: int, flushes: int, ignored: int = 0) -> DiskShare:
    return DiskShare(name=name, writes=writes, flushes=flushes, ignored=ignored)


def test_a_liar_is_named_and_one_that_is_sent_no_flush() -> None:
    honest = share("first", 9, 4)
    assert blamed([honest, share("b", 5, 3, 3), share("c", 7, 0)]) == [
        "Disk b ignored 3 of 3 flushes and writes with FUA.",
        "Disk c was sent 7 writes and no flush.",
    ]
    assert blamed([honest, share("idle", 0, 0), share("d", 1, 1)]) == []


def test_where_all_are_alike_none_is_named() -> None:
    assert blamed([share("first", 9, 4, 4), share("b", 5, 3, 3)]) == []
    assert blamed([share("first", 9, 0), share("b", 5, 0)]) == []
    assert blamed([]) == []


def test_a_share_counts_what_was_done_before_the_cut_on_its_own_disk() -> None:
    made = Handmade(8192)
    made.write(0, bytes(512), at=1, done=2, fua=True)
    made.write(4096, bytes(512), at=1, done=2, fua=True, ignored=True)
    made.flush(at=3, done=4, disk=(0, 4096))
    made.flush(at=3, done=4, disk=(4096, 4096), ignored=True)
    made.flush(at=8, done=12, disk=(0, 4096))  # the cut comes first
    timeline = made.timeline(cut_at=10)
    assert disk_shares(timeline) == ()
    both = (DiskRange("first", 0, 4096, "first"), DiskRange("b", 4096, 8192, "folder"))
    shares = disk_shares(replace(timeline, disks=both))
    assert shares == (share("first", 1, 2), share("b", 1, 2, 2))
