# SPDX-License-Identifier: Apache-2.0
"""Particular logs: what is refused, with which words, and what each reading claims."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from powercut.model.contract import DeviceContract
from powercut.model.errors import DamagedRecording, HostError, UsageError
from powercut.model.timeline import RequestKind, Requests, Timeline
from powercut.model.units import NEVER, Instant
from powercut_extras.logs.logs import (
    Dialect,
    Reading,
    export_log,
    history_from_marks,
    import_log,
    read_log,
    to_timeline,
    write_log,
)

FLUSH, FUA, DISCARD, MARK, METADATA = 1, 2, 4, 8, 16
DISK = 64 * 512
END = (MARK, 0, 0, b"dm-log-writes-end")


@pytest.fixture
def log_of(tmp_path):
    """Writes a log of (flags, sector, sectors, name) rows; the data are the row's number."""

    def make(*rows, count=None, size=512, behind=b""):
        out = bytearray(size)
        entries = len(rows) if count is None else count
        struct.pack_into("<QQQI", out, 0, 0x6A736677736872, 1, entries, size)
        for number, (flags, sector, sectors, name) in enumerate(rows):
            head = bytearray(size)
            struct.pack_into("<QQQQ", head, 0, sector, sectors, flags, len(name))
            head[32 : 32 + len(name)] = name
            out += head
            if not flags & (DISCARD | MARK):
                out += bytes([number + 1]) * (sectors * size)
        path = tmp_path / "log"
        path.write_bytes(bytes(out) + behind)
        return path

    return make


def write(sector, sectors=1, flags=0):
    return (flags, sector, sectors, b"")


def mark(name):
    return (MARK, 0, 0, name.encode())


F = (FLUSH, 0, 0, b"")


def flat(timeline):
    """Requests as (kind, first sector, FUA), and which writes each flush covers by definition."""
    r = timeline.requests
    out = []
    for i in range(len(r)):
        if r.kind[i] != RequestKind.FLUSH:
            continue
        out.append(
            sorted(
                int(r.offset[j]) // 512
                for j in range(len(r))
                if r.kind[j] != RequestKind.FLUSH
                and r.completed_ns[j] < r.submitted_ns[i]
                and r.completed_ns[i] != NEVER
            )
        )
    return out


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        (b"", "is empty", "the log is the second"),
        (b"\0" * 4096, "its first sector is zero", "dialect is qemu"),
        (b"PCUTLOG1" + bytes(600), "disk log of powercut itself", "needs no import"),
        (b"QFI\xfb" + bytes(600), "a qcow2 image", "DATA first, then LOG"),
        (b"XFSB" + bytes(600), "an XFS file system", "DATA first, then LOG"),
        (bytes(1080) + b"\x53\xef" + b"x", "its first sector is zero", ""),
        (b"x" * 1080 + b"\x53\xef", "an ext2, ext3 or ext4 file system", "DATA first"),
        (b"\x00\x6a\x73\x66\x77\x73\x68\x72" + b"x" * 600, "byte-swapped", ""),
        (b"\x1f\x8b" + b"x" * 600, "compressed with gzip", "decompress"),
        (b"y" * 600, "it begins with 79 79", "72 68 73 77"),
        (b"short", "too few for a superblock", ""),
    ],
)
def test_another_file_is_named_for_what_it_is(tmp_path, content, message, hint):
    path = tmp_path / "log"
    path.write_bytes(content)
    with pytest.raises(DamagedRecording) as refused:
        read_log(path, disk_size=DISK)
    assert message in str(refused.value)
    assert hint in refused.value.hint


def test_a_file_that_is_not_there_is_a_matter_of_the_host(tmp_path):
    with pytest.raises(HostError, match="No such file"):
        read_log(tmp_path / "none", disk_size=DISK)
    with pytest.raises(HostError, match="base image"):
        import_log(tmp_path / "none", base=tmp_path / "none")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ((32, 0, 1, b""), "has unknown flags 0x20"),
        ((0, 60, 5, b""), "lies outside of the disk: sectors 60 to 65 of 64"),
        ((0, 2**63, 2**63, b""), "lies outside of the disk"),
        ((DISCARD, 0, 2**62, b""), "lies outside of the disk"),
        ((0, 0, 0, b""), "is empty: it was never written"),
        ((DISCARD | FUA, 0, 1, b""), "is no valid entry"),
        ((FUA, 0, 0, b""), "is no valid entry"),
        ((MARK | FLUSH, 0, 0, b"x"), "is no valid entry"),
        ((0, 0, 1, b"not zero"), "is no valid entry"),
    ],
)
def test_a_damaged_entry_is_named(log_of, row, words):
    big = row[2] > 1000
    rows = [write(0), F, row if not big else (*row[:2], 0, b"")]
    path = log_of(*rows, count=4, behind=b"\0" * 2048)
    if big:
        raw = bytearray(path.read_bytes())
        struct.pack_into("<QQQQ", raw, 4 * 512, row[1], row[2], row[0], 0)
        path.write_bytes(bytes(raw))
    with pytest.raises(DamagedRecording) as refused:
        read_log(path, disk_size=DISK, dialect=Dialect.KERNEL)
    assert "entry 2 at byte 2,048 " in str(refused.value)
    assert words in str(refused.value)
    assert "the superblock counts 4 entries" in str(refused.value)
    assert "2 entries before it" in refused.value.hint
    log = read_log(path, disk_size=DISK, dialect=Dialect.KERNEL, salvage=True)
    assert (len(log), log.complete) == (2, False)


@pytest.mark.parametrize(("version", "size"), [(2, 512), (1, 513), (1, 0), (1, 65536)])
def test_an_unknown_superblock_is_refused(log_of, version, size):
    path = log_of(F, END)
    raw = bytearray(path.read_bytes())
    struct.pack_into("<Q", raw, 8, version)
    struct.pack_into("<I", raw, 24, size)
    path.write_bytes(bytes(raw))
    with pytest.raises(DamagedRecording, match="version 2" if version == 2 else f"{size} bytes"):
        read_log(path, disk_size=DISK)


def test_the_kernels_count_ends_its_log(log_of):
    """What stands behind it may be of an earlier run."""
    path = log_of(write(0), F, write(1, flags=FUA), write(2), F, END, count=3)
    log = read_log(path, disk_size=DISK)
    assert (log.dialect, len(log), log.complete) == (Dialect.KERNEL, 3, False)
    assert len(read_log(path, disk_size=DISK, beyond_count=True)) == 6


def test_old_kernels_gave_the_length_of_dax_writes(log_of):
    path = log_of(write(0), mark("x"), END)
    raw = bytearray(path.read_bytes())
    struct.pack_into("<Q", raw, 512 + 24, 512)
    path.write_bytes(bytes(raw))
    assert len(read_log(path, disk_size=DISK)) == 3


def test_qemus_order_is_not_taken_for_the_kernels(log_of):
    path = log_of(write(0), mark("ack 1"), F, END)
    with pytest.raises(DamagedRecording, match=r"entry 0 at byte 512 is a write that entry 1 foll"):
        to_timeline(read_log(path, disk_size=DISK), reading=Reading.CERTAIN)


def test_qemu_never_writes_what_only_the_kernel_does(log_of):
    path = log_of(write(0), write(1, flags=FUA), F)
    with pytest.raises(DamagedRecording, match="entry 1 at byte 1,536 has flags 0x2"):
        read_log(path, disk_size=DISK, dialect=Dialect.QEMU)
    path = log_of(write(0), write(1, flags=FLUSH))
    with pytest.raises(DamagedRecording, match="entry 1 at byte 1,536 has flags 0x1"):
        read_log(path, disk_size=DISK, dialect=Dialect.QEMU)


def test_a_flush_with_data_comes_before_its_data(log_of):
    """FLUSH|FUA: first what stands before is durable, then the write itself."""
    path = log_of(write(0), write(1, flags=FLUSH | FUA), mark("ack 1"), END)
    for reading in Reading:
        r = to_timeline(read_log(path, disk_size=DISK), reading=reading).requests
        assert r.kind.tolist() == [1, 4, 1]
        assert r.fua.tolist() == [False, False, True]
        assert (r.submitted_ns[1:] > r.completed_ns[:-1]).all()


def test_a_flush_with_volatile_data_proves_nothing_about_them(log_of):
    path = log_of(write(0), write(1, flags=FLUSH), mark("a"), write(2), F, mark("b"), END)
    log = read_log(path, disk_size=DISK)
    assert flat(to_timeline(log, reading=Reading.CAUTIOUS)) == [[0], [0, 2]]
    assert flat(to_timeline(log, reading=Reading.CERTAIN)) == [[0], [0, 1, 2]]


def test_what_a_qemu_flush_covers(log_of):
    path = log_of(write(0), F, write(1), F, write(2), F)
    log = read_log(path, disk_size=DISK)
    assert flat(to_timeline(log, reading=Reading.CERTAIN)) == [[0], [0, 1], [0, 1, 2]]
    assert flat(to_timeline(log, reading=Reading.CAUTIOUS)) == [[], [0], [0, 1]]


def test_a_flush_behind_the_count_claims_nothing(log_of):
    path = log_of(write(0), F, write(1), F, count=2)
    log = read_log(path, disk_size=DISK, dialect=Dialect.QEMU)
    assert flat(to_timeline(log, reading=Reading.CAUTIOUS)) == [[], []]
    assert flat(to_timeline(log, reading=Reading.CERTAIN)) == [[0], [0, 1]]


def test_overlapping_writes_keep_the_order_of_the_log(log_of):
    """Others of their epoch may be on their way together."""
    path = log_of(write(0, 4), write(8), write(2, 4), write(20), F, END)
    r = to_timeline(read_log(path, disk_size=DISK), reading=Reading.CAUTIOUS).requests
    row = {int(offset) // 512: i for i, offset in enumerate(r.offset) if r.kind[i] == 1}
    assert r.completed_ns[row[0]] < r.submitted_ns[row[2]]
    assert r.submitted_ns[row[20]] < r.completed_ns[row[0]]


def test_the_kernel_cannot_tell_plain_from_fua(log_of):
    """A plain write may have completed before the FUA write that stands before it."""
    rows = [write(0, flags=FUA), write(7, flags=FUA), write(0, 2), F, mark("x"), END]
    log = read_log(log_of(*rows), disk_size=DISK)
    assert len(log.doubts) == 1
    assert "entries 0 (FUA) and 2 overlap" in log.doubts[0]
    between = [rows[0], F, *rows[2:]]
    assert len(read_log(log_of(*between), disk_size=DISK).doubts) == 1
    far = [rows[0], F, write(9), F, *rows[2:]]
    assert read_log(log_of(*far), disk_size=DISK).doubts == ()
    in_order = [write(0, 2), F, rows[0], F, END]
    assert read_log(log_of(*in_order), disk_size=DISK).doubts == ()


def test_marks_become_a_history(log_of, tmp_path):
    rows = [
        mark("attempt 2"),
        write(0),
        F,
        mark("ack 2"),
        mark("fact run_id=ab=c"),
        mark("note"),
        END,
    ]
    base = tmp_path / "base"
    base.write_bytes(bytes(DISK))
    imported = import_log(log_of(*rows), base=base)
    history = imported.history
    assert (history.attempt_lsn.tolist(), history.ack_lsn.tolist()) == ([2], [2])
    assert history.facts == {"run_id": "ab=c"}
    flushed = imported.certain.requests.completed_ns[-1]
    assert history.attempt_ns[0] < imported.certain.requests.submitted_ns[0]
    assert history.ack_ns[0] > flushed
    assert imported.cautious.marks == imported.certain.marks
    unknown = history_from_marks([(Instant(5), "ack 7"), (Instant(6), "acknowledge 8")])
    assert (unknown.acked, unknown.attempted) == (7, 1 << 40)
    assert unknown.facts == {"attempts": "unknown"}


def one_write(offset=0, length=512, marks=()):
    return Timeline(
        disk_size=DISK,
        contract=DeviceContract(),
        requests=Requests(
            kind=np.array([1], np.uint8),
            fua=np.array([False]),
            offset=np.array([offset], np.int64),
            length=np.array([length], np.int64),
            submitted_ns=np.array([1], np.int64),
            completed_ns=np.array([2], np.int64),
            data_offset=np.array([0], np.int64),
            failed=np.array([False]),
        ),
        data=np.ones(8192, np.uint8),
        marks=marks,
    )


def test_what_the_format_cannot_hold_is_refused(tmp_path):
    path = tmp_path / "out"
    with pytest.raises(UsageError, match="sectors of 513 bytes"):
        write_log(one_write(), path, sector_size=513)
    with pytest.raises(
        UsageError, match=r"request 0 \(512 bytes at byte 512\) is not aligned to 4096"
    ):
        write_log(one_write(offset=512), path, sector_size=4096)
    with pytest.raises(UsageError, match="up to 479 bytes"):
        write_log(one_write(marks=((Instant(3), "x" * 480),)), path)
    assert not path.exists()
    write_log(one_write(marks=((Instant(3), "x" * 479),)), path)
    with pytest.raises(HostError, match="exists"):
        write_log(one_write(), path)


def test_a_history_survives_export_and_import(tmp_path, log_of):
    rows = [mark("attempt 1"), write(0), F, mark("ack 1"), mark("fact k=v"), mark("note"), END]
    base = tmp_path / "base"
    base.write_bytes(bytes(DISK))
    first = import_log(log_of(*rows), base=base)
    result = export_log(first.certain, first.history, tmp_path / "again")
    again = import_log(tmp_path / "again", base=base)
    assert sorted(again.log.names.values()) == sorted(first.log.names.values())
    assert again.history.ack_lsn.tolist() == [1]
    assert again.history.facts == {"k": "v"}
    assert (result.entries, result.flushes, result.marks, result.left_out) == (7, 1, 5, 0)


def test_long_requests_are_logged_in_pieces(tmp_path):
    """replay-log leaves out discards above 128 MiB without a word."""
    size = 300 << 20
    t = one_write()
    requests = Requests(
        kind=np.array([RequestKind.DISCARD, RequestKind.ZERO, RequestKind.FLUSH], np.uint8),
        fua=np.array([False, True, False]),
        offset=np.array([0, 0, 0], np.int64),
        length=np.array([size, size, 0], np.int64),
        submitted_ns=np.array([1, 2, 5], np.int64),
        completed_ns=np.array([4, 3, 6], np.int64),
        data_offset=np.array([-1, -1, -1], np.int64),
        failed=np.zeros(3, np.bool_),
    )
    big = Timeline(disk_size=size, contract=t.contract, requests=requests, data=t.data)
    path = tmp_path / "out"
    result = write_log(big, path)
    assert path.stat().st_blocks * 512 < 1 << 20  # zeroes are holes
    log = read_log(path, disk_size=size)
    assert (log.length[log.has_data] <= 128 << 20).all()
    assert log.length.sum() == 2 * size
    assert (result.size, log.complete) == (path.stat().st_size, True)
