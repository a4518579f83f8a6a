# SPDX-License-Identifier: Apache-2.0
"""Life after recovery, and recoveries on record, on real file systems."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from powercut.explore.recovery_timeline import Durability, timeline_of_record
from powercut.model.contract import DeviceContract
from powercut.model.observation import Extent, Observation
from powercut.model.timeline import RequestKind
from powercut.recover.plan import GoOn, RecoveryPlan
from powercut.recover.port import ImageWrite
from powercut.recover.uml.engine import UmlEngine, unavailable
from powercut.wal.layout import SlotState

pytestmark = pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable()))

RUN_ID = "00112233445566778899aabbccddeeff"
SIZE = 16 << 20
BOOT_S = 120.0
STATE_S = 60.0
MKFS = {
    "ext4": ["mkfs.ext4", "-q", "-F"],
    "xfs": ["mkfs.xfs", "-q", "-f", "--unsupported"],
    # Without checksums, so that nothing but its use shows that a bitmap is an old one.
    "ext4-plain": ["mkfs.ext4", "-q", "-F", "-b", "4096", "-O", "^metadata_csum,^uninit_bg"],
}
LAYOUTS = {
    "append": ("layout=append", "path=/mnt/wal", "record=4096"),
    "full": ("layout=prealloc", "path=/mnt/wal", "record=4096", "capacity=409600"),
    "segments": ("layout=segments", "path=/mnt/wal", "record=4096", "segment=65536"),
}


def tool(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def mkfs(path: Path, kind: str) -> Path:
    name, *options = MKFS[kind]
    with path.open("wb") as file:
        file.truncate(SIZE)
    argv = [tool(name), *options, str(path)]
    subprocess.run(argv, check=True, capture_output=True, timeout=60)
    return path


def plan(kind: str, layout: str, *, records: int = 0) -> RecoveryPlan:
    log = (f"run_id={RUN_ID}", *LAYOUTS[layout])
    after = ("/bin/wal", "write", *log, "sync=fdatasync", f"records={records}", "channel=fd:3")
    reads = RecoveryPlan.of(kind.partition("-")[0], "", "/mnt", ("/bin/wal", "read", *log))
    return reads.going_on(after, records) if records else reads


def written(base: Path, kind: str, layout: str, records: int, *, unmount: bool = False):
    """The disk after so many synced records, as writes over `base`."""
    what = plan(kind, layout, records=records)
    writer = what.find(GoOn).command if records else ()
    with UmlEngine(base, what) as engine:
        engine.start(timeout_s=BOOT_S)
        engine.mount(timeout_s=STATE_S)
        engine.execute(writer, timeout_s=STATE_S)
        if unmount:
            engine.unmount(timeout_s=STATE_S)
        return engine.capture(timeout_s=STATE_S)


def intact(*counts: int) -> tuple[Extent, ...]:
    return tuple(Extent(0, count, SlotState.INTACT, 1, 0) for count in counts)


def whole(seen: Observation) -> set[int]:
    """The LSNs that came back."""
    return {
        lsn
        for extent in seen.extents
        if extent.state is SlotState.INTACT
        for lsn in range(extent.lsn, extent.lsn + extent.count)
    }


@pytest.fixture(scope="module", params=["ext4", "xfs"])
def disk(request, tmp_path_factory):
    """A base image, and the crash state after 100 synced records."""
    base = mkfs(tmp_path_factory.mktemp(request.param) / "base", request.param)
    return request.param, base, written(base, request.param, "append", 100)


@pytest.fixture(scope="module")
def engine(disk):
    kind, base, _ = disk
    with UmlEngine(base, plan(kind, "append", records=16)) as engine:
        engine.start(timeout_s=BOOT_S)
        yield engine


def went_on(seen: Observation) -> tuple[int, int, int, tuple[Extent, ...], str]:
    assert seen.later is not None
    later = seen.later
    assert (later.observation.recovered, later.observation.complete) == (True, True)
    return later.first_lsn, later.attempted, later.acked, later.observation.extents, later.failure


def test_the_workload_goes_on_where_the_log_ends_and_nothing_leaks(disk, engine):
    _, _, state = disk
    for writes, before in ((state, 100), ((), 0), (state, 100)):
        seen = engine.recover(writes, timeout_s=STATE_S)
        assert seen.extents == (intact(before) if before else ())
        assert (seen.complete, seen.failure) == (True, "")
        assert went_on(seen) == (before + 1, before + 16, before + 16, intact(before + 16), "")
    assert engine.boots == 1


def test_a_full_log_is_no_fault_of_anybody(tmp_path):
    base = mkfs(tmp_path / "base", "ext4")
    state = written(base, "ext4", "full", 100)
    with UmlEngine(base, plan("ext4", "full", records=16)) as engine:
        engine.start(timeout_s=BOOT_S)
        seen = engine.recover(state, timeout_s=STATE_S)
    assert seen.extents == intact(100)
    assert seen.later is not None
    assert (seen.later.first_lsn, seen.later.acked, seen.later.no_room) == (101, 0, True)
    assert "101 is beyond the 100 slots" in seen.later.failure
    assert seen.later.observation.extents == intact(100)


def accounting(base: Path, clean: tuple[ImageWrite, ...]) -> tuple[ImageWrite, ImageWrite]:
    """What an ext4 with one group of blocks says is free, as it was in `base`: the block
    bitmap, and the count in the group's descriptor (the kernel's Documentation, ext4)."""
    argv = [tool("dumpe2fs"), str(base)]
    text = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout
    (block,) = re.findall(r"Block bitmap at (\d+)", text)
    bitmap, descriptor = int(block) * 4096, 4096
    old = np.frombuffer(base.read_bytes(), dtype=np.uint8)
    now = {write.offset: write.data for write in clean}
    assert bitmap in now, "the bitmap never changed"
    group = now[descriptor].copy()
    for field in (0x0C, 0x2C):  # bg_free_blocks_count_lo, _hi
        group[field : field + 2] = old[descriptor + field : descriptor + field + 2]
    return (
        ImageWrite(bitmap, 4096, old[bitmap : bitmap + 4096]),
        ImageWrite(descriptor, 4096, group),
    )


def test_a_recovery_that_looks_right_and_loses_later(tmp_path):
    """A disk that lost the last writes of a group's accounts: every record is there, until the
    next is written on top of an old one."""
    base = mkfs(tmp_path / "base", "ext4-plain")
    clean = written(base, "ext4-plain", "segments", 100, unmount=True)
    bitmap, descriptor = accounting(base, clean)
    trap, half = (*clean, bitmap, descriptor), (*clean, bitmap)
    with UmlEngine(base, plan("ext4-plain", "segments", records=32)) as engine:
        engine.start(timeout_s=BOOT_S)
        honest = engine.recover(clean, timeout_s=STATE_S)
        trapped = engine.recover(trap, timeout_s=STATE_S)
        noticed = engine.recover(half, timeout_s=STATE_S)
    assert honest.later is not None
    assert (honest.later.first_lsn, honest.later.acked, honest.later.failure) == (101, 132, "")
    assert whole(honest.later.observation) == set(range(1, 133))
    assert whole(trapped) == set(range(1, 101)), "it looks right"
    assert (trapped.complete, trapped.failure) == (True, "")
    assert trapped.later is not None
    assert trapped.later.acked == 132
    lost = set(range(1, 133)) - whole(trapped.later.observation)
    assert lost & set(range(1, 101)), "what was written last lies on top of the old"
    # ext4 calls it "no space" when it finds its accounts to be wrong: that is no full disk.
    assert noticed.later is not None
    assert "inconsistent" in noticed.later.failure
    assert "No space left" in noticed.later.failure
    assert not noticed.later.no_room


def test_a_recovery_on_record_is_whole_and_changes_nothing(disk, engine):
    """The log, laid over the state, is the disk that the recovery has left."""
    _, base, state = disk
    plain = engine.recover(state, timeout_s=STATE_S)
    seen, raw = engine.record(state, timeout_s=STATE_S)
    left = engine.capture(timeout_s=STATE_S)
    assert seen == plain
    timeline = timeline_of_record(
        raw, disk_size=SIZE, durability=Durability(DeviceContract(), through=False)
    )
    requests = timeline.requests
    assert (requests.kind == RequestKind.FLUSH).sum() >= 16, "each of 16 syncs flushes"
    assert [name for _, name in timeline.marks] == ["after", "dm-log-writes-end"]
    image = bytearray(base.read_bytes())
    for write in state:
        image[write.offset : write.offset + write.length] = write.data.tobytes()
    for one in np.flatnonzero(requests.kind == RequestKind.WRITE):
        at, length, data = (
            int(getattr(requests, name)[one]) for name in ("offset", "length", "data_offset")
        )
        image[at : at + length] = timeline.data[data : data + length].tobytes()
    final = bytearray(base.read_bytes())
    for write in left:
        final[write.offset : write.offset + write.length] = write.data.tobytes()
    assert image == final
    assert engine.recover(state, timeout_s=STATE_S) == plain
    assert engine.boots == 1


def test_the_log_of_a_recovery_is_not_that_of_the_one_before(disk, engine):
    _, _, state = disk
    _, long = engine.record(state, timeout_s=STATE_S)
    seen, _ = engine.record((), timeout_s=STATE_S)
    _, again = engine.record(state, timeout_s=STATE_S)
    assert seen.extents == ()
    assert abs(len(again) - len(long)) < len(long) // 4


def test_a_state_that_does_not_mount_has_a_record_too(disk, engine):
    _, _, state = disk
    seen, raw = engine.record((*state, ImageWrite(0, 64 << 10, None)), timeout_s=STATE_S)
    assert not seen.recovered
    assert seen.complete
    assert raw
    assert engine.recover(state, timeout_s=STATE_S).extents == intact(100)
    assert engine.boots == 1


def test_a_second_reading_that_fails_is_unknown_whatever_the_writer_said(tmp_path):
    """The writer makes a folder where the reader wants a file, and then runs out of space."""
    base = mkfs(tmp_path / "base", "ext4")
    log = (f"run_id={RUN_ID}", "path=/mnt/wal", "record=65536")
    writer = ("write", "layout=segments", "segment=1048576", "batch=16", "records=4096")
    reads = RecoveryPlan.of("ext4", "", "/mnt", ("/bin/wal", "read", "layout=append", *log))
    what = reads.going_on(("/bin/wal", *writer, *log, "channel=fd:3"), 4096)
    with UmlEngine(base, what) as engine:
        engine.start(timeout_s=BOOT_S)
        seen = engine.recover((), timeout_s=STATE_S)
    assert (seen.complete, seen.failure, seen.extents) == (True, "", ())
    assert seen.later is not None
    assert not seen.later.no_room
    assert not seen.later.observation.complete, "nothing was read, so nothing is missing"
    assert seen.later.acked > 0
