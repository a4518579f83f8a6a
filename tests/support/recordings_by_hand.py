# SPDX-License-Identifier: Apache-2.0
"""Recordings made by hand, without a guest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from handmade import Handmade, history

from powercut.model.timeline import Timeline
from powercut.recording.disk import DiskRecording
from powercut.recover.plan import RecoveryPlan
from powercut.store.trial_dir import TrialDir
from powercut.wal.layout import LayoutKind, WalLayout
from powercut.wal.record import record_bytes

RUN_ID = bytes(range(16))
RECORD = 512
SLOTS = 32
LAYOUT = WalLayout(LayoutKind.RAW, record=RECORD, capacity=SLOTS * RECORD)
SIZE = 64 << 10


def record(lsn: int) -> bytes:
    """A record of the run, as the workload writes it into a raw log of 32 slots."""
    return record_bytes(
        RUN_ID,
        0,
        lsn,
        prev_lsn=lsn - 1,
        generation=(lsn - 1) // SLOTS,
        position=(lsn - 1) % SLOTS * RECORD,
        record_size=RECORD,
    )


def recording_of(
    folder: Path, timeline: Timeline, acks: Sequence[tuple[int, int]], base: bytes = b""
) -> DiskRecording:
    """A recording of a raw log in `folder`, from a timeline and its acks (LSN, instant)."""
    folder.mkdir()
    (folder / "base.img").write_bytes(base.ljust(timeline.disk_size, b"\0"))
    reader = (
        "/bin/wal", "read", f"run_id={RUN_ID.hex()}", "layout=raw", "path=/dev/vda",
        f"record={RECORD}", "align=0", f"capacity={SLOTS * RECORD}", "channel=fd:3",
    )  # fmt: skip
    return DiskRecording(
        directory=TrialDir(folder, folder),
        title="made by hand",
        base=folder / "base.img",
        filesystem="",
        timeline=timeline,
        history=history(acks),
        run_id=RUN_ID,
        layout=LAYOUT,
        plan=RecoveryPlan.of("", "", "/mnt", reader),
    )


def three_records(*, flushed: int = 0) -> Handmade:
    """Records 1 to 3 in writes of their own, then one of zeroes far away.

    A flush follows the first `flushed` of the records.
    """
    made = Handmade(disk_size=SIZE)
    for index in range(3):
        at = 10 + 100 * index
        made.write(index * RECORD, record(index + 1), at=at, done=at + 5)
        if index + 1 == flushed:
            made.flush(at=at + 10, done=at + 20)
    made.zero(SIZE - 4096, 4096, at=400, done=405)
    return made
