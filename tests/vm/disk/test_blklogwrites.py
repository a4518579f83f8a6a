# SPDX-License-Identifier: Apache-2.0
"""Real logs of QEMU's blklogwrites driver, driven by qemu-io: no guest, no accelerator."""

from __future__ import annotations

import os
import random
import shutil
import subprocess

import pytest

from powercut.model.errors import DamagedRecording
from powercut.model.timeline import RequestKind
from powercut.model.units import NEVER
from powercut_extras.logs.logs import Dialect, Reading, import_log, read_log, to_timeline

DISK = 1 << 20
QEMU_IO_S = 60  # normally 50 ms
FLUSH, DISCARD = 1, 4


@pytest.fixture
def drive(tmp_path):
    """Runs qemu-io on a fresh blklogwrites node; returns the base image and the log."""
    if shutil.which("qemu-io") is None:
        pytest.skip("qemu-io is not installed (Debian package qemu-utils)")

    def run(commands, *, cache="writeback", sector_size=512, killed=False):
        base, disk, log = tmp_path / "base", tmp_path / "disk", tmp_path / "log"
        base.touch()
        os.truncate(base, DISK)
        shutil.copy(base, disk)
        log.write_bytes(b"")
        node = (
            f"driver=blklogwrites,discard=unmap,log-sector-size={sector_size},"
            f"file.driver=raw,file.discard=unmap,file.file.driver=file,file.file.discard=unmap,"
            f"file.file.filename={disk},log.driver=file,log.filename={log}"
        )
        argv = ["qemu-io", "-t", cache, "--image-opts", node]
        for command in [*commands, *(["sigraise 9"] if killed else [])]:
            argv += ["-c", command]
        done = subprocess.run(argv, capture_output=True, timeout=QEMU_IO_S, check=False)
        assert done.returncode == (-9 if killed else 0), done.stderr
        return base, log

    return run


def rows(log):
    """Flags, offset, length, and the byte that fills the data."""
    found = []
    for entry in range(len(log)):
        flags, length = int(log.flags[entry]), int(log.length[entry])
        fill = -1
        if length and not flags & DISCARD:
            data = log.payload(entry)
            fill = int(data[0])
            assert (data == fill).all()
        found.append((flags, int(log.offset[entry]), length, fill))
    return found


@pytest.mark.parametrize("sector_size", [512, 4096])
def test_what_was_sent_is_what_is_read(drive, sector_size):
    rng = random.Random(sector_size)
    commands, wanted, dirty = [], [], False
    for number in range(1, 120):
        what = rng.choice(["write", "write", "write", "zero", "discard", "flush"])
        length = sector_size * rng.randint(1, 8)
        offset = sector_size * rng.randrange((DISK - length) // sector_size)
        if what == "flush":
            commands.append("flush")
            wanted += [(FLUSH, 0, 0, -1)] if dirty else []  # QEMU leaves out idle flushes
            dirty = False
            continue
        dirty = True
        if what == "write":
            commands.append(f"write -P {number} {offset} {length}")
            wanted.append((0, offset, length, number))
        elif what == "zero":
            commands.append(f"write -z {offset} {length}")
            wanted.append((0, offset, length, 0))
        else:
            offset, length = offset & ~4095, (length + 4095) & ~4095
            commands.append(f"discard {offset} {length}")
            wanted.append((DISCARD, offset, length, -1))
    wanted += [(FLUSH, 0, 0, -1)] if dirty else []  # when the node is closed
    base, path = drive(commands, sector_size=sector_size)
    imported = import_log(path, base=base)
    log = imported.log
    assert rows(log) == wanted
    assert (log.dialect, log.sector_size, log.counted) == (Dialect.QEMU, sector_size, len(wanted))
    assert (log.complete, log.doubts) == (True, ())
    assert imported.history.acked == 0


def test_writes_that_overlap_in_time_are_all_there(drive):
    commands = [f"aio_write -P {n} {n * 8192} 4096" for n in range(1, 41)]
    base, path = drive([*commands, "aio_flush", "flush"])
    log = read_log(path, disk_size=base.stat().st_size)
    found = rows(log)
    assert sorted(found[:40]) == [(0, n * 8192, 4096, n) for n in range(1, 41)]
    assert {row[0] for row in found[40:]} == {FLUSH}


def test_a_killed_qemu_leaves_a_count_that_lags(drive):
    """The entries behind the count are read; what they cannot prove is not claimed."""
    commands = ["write -P 1 0 4k", "flush", "write -P 2 8k 4k", "write -P 3 16k 4k"]
    base, path = drive(commands, killed=True)
    log = read_log(path, disk_size=base.stat().st_size)
    assert rows(log) == [(0, 0, 4096, 1), (1, 0, 0, -1), (0, 8192, 4096, 2), (0, 16384, 4096, 3)]
    assert (len(log), log.counted, log.complete) == (4, 2, False)
    assert len(read_log(path, disk_size=DISK, beyond_count=False)) == 2

    cautious = to_timeline(log, reading=Reading.CAUTIOUS).requests
    flush = cautious.kind == RequestKind.FLUSH
    assert (cautious.submitted_ns[flush] < cautious.completed_ns[~flush].min()).all()
    certain = to_timeline(log, reading=Reading.CERTAIN).requests
    assert certain.fua[certain.kind == RequestKind.WRITE].all()


def test_a_killed_qemu_without_a_flush_leaves_no_superblock(drive):
    base, path = drive(["write -P 1 0 4k", "write -P 2 8k 4k"], killed=True)
    size = base.stat().st_size
    with pytest.raises(DamagedRecording, match="its first sector is zero"):
        read_log(path, disk_size=size)
    log = read_log(path, disk_size=size, dialect=Dialect.QEMU)
    assert rows(log) == [(0, 0, 4096, 1), (0, 8192, 4096, 2)]
    assert (log.counted, log.complete) == (0, False)


def test_fua_may_leave_no_flush_in_the_log(drive):
    """Why a write of QEMU's may never be called lost for want of a flush alone."""
    base, path = drive(["write -f -P 1 0 4k"], killed=True)
    log = read_log(path, disk_size=base.stat().st_size, dialect=Dialect.QEMU)
    assert rows(log) == [(0, 0, 4096, 1)]
    for no_fua, durable in ((False, True), (True, False)):
        word = read_log(path, disk_size=DISK, dialect=Dialect.QEMU, no_fua=no_fua)
        assert to_timeline(word, reading=Reading.CERTAIN).requests.fua.tolist() == [durable]
        assert to_timeline(word, reading=Reading.CAUTIOUS).requests.fua.tolist() == [False]


def test_a_log_that_was_closed_proves_its_last_flush(drive):
    base, path = drive(["write -P 1 0 4k", "flush"])
    for closed in (False, True):
        log = read_log(path, disk_size=base.stat().st_size, closed=closed)
        assert rows(log) == [(0, 0, 4096, 1), (1, 0, 0, -1)]
        r = to_timeline(log, reading=Reading.CAUTIOUS).requests
        flush, write = (r.kind == RequestKind.FLUSH).argmax(), (r.kind == 1).argmax()
        assert (r.completed_ns[write] < r.submitted_ns[flush]) == closed
        assert r.completed_ns[flush] != NEVER


def test_a_log_file_that_was_used_before_is_a_doubt(drive, tmp_path):
    base, path = drive(["write -P 1 0 4k", "write -P 2 8k 64k", "flush"])
    older = path.read_bytes()
    base, path = drive(["write -P 3 0 4k", "write -P 4 8k 2k", "flush"])
    newer = path.read_bytes()
    path.write_bytes(newer + older[len(newer) :])
    log = read_log(path, disk_size=base.stat().st_size)
    assert not log.complete
    assert len(log.doubts) == 1
    assert f"at byte {len(newer):,}" in log.doubts[0]
