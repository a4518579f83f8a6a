# SPDX-License-Identifier: Apache-2.0
"""What a crash leaves: the reader must say exactly what was done to the file."""

import errno
import os
import resource

import numpy as np
import pytest
import wal_driver
from wal_driver import GETDENTS64, PREAD64, Refused

from powercut.model.crc32c import crc32c
from powercut.wal import record as wal
from powercut.wal.layout import SlotState

ABSENT, CORRUPT, INTACT = SlotState.ABSENT, SlotState.CORRUPT, SlotState.INTACT
STALE, TORN, UNREADABLE = SlotState.STALE, SlotState.TORN, SlotState.UNREADABLE


@pytest.fixture
def log(wal, tmp_path):
    """Twenty records of four sectors each."""
    keys = {"path": tmp_path / "log", "record": 2048}
    assert wal.write(**keys, records=20).acked == 20
    return keys


def with_memory(limit):
    """For preexec_fn: an address space of `limit` bytes and no more."""
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def patch(keys, offset, data):
    with keys["path"].open("r+b") as file:
        file.seek(offset)
        file.write(data)


def test_nothing(wal, tmp_path):
    read = wal.read(path=tmp_path / "none")
    assert (read.status, read.extents, read.facts) == (0, [], {"file": "missing"})
    read = wal.read(path=tmp_path / "none", layout="segments", segment=4096)
    assert (read.status, read.extents, read.facts) == (0, [], {"file": "missing"})
    (tmp_path / "empty").touch()
    assert wal.read(path=tmp_path / "empty").extents == []


def test_lost_tail(wal, log):
    os.truncate(log["path"], 12 * 2048)
    assert wal.read(**log).extents == [(0, 12, INTACT, 1, 0)]


def test_size_without_data(wal, log):
    os.truncate(log["path"], 12 * 2048)
    os.truncate(log["path"], 20 * 2048)
    assert wal.read(**log).extents == [(0, 12, INTACT, 1, 0), (12, 8, ABSENT, 0, 0)]


def test_tail_cut_within_a_record(wal, log):
    os.truncate(log["path"], 12 * 2048 + 700)  # one sector and a part of the second
    assert wal.read(**log).extents == [(0, 12, INTACT, 1, 0), (12, 1, TORN, 13, 1)]


def test_hole(wal, log):
    patch(log, 5 * 2048, bytes(3 * 2048))
    assert wal.read(**log).extents == [
        (0, 5, INTACT, 1, 0),
        (5, 3, ABSENT, 0, 0),
        (8, 12, INTACT, 9, 0),
    ]


def test_lost_header_sector(wal, log):
    patch(log, 7 * 2048, bytes(512))
    assert wal.read(**log).extents == [
        (0, 7, INTACT, 1, 0),
        (7, 1, TORN, 8, 3),
        (8, 12, INTACT, 9, 0),
    ]


def test_flipped_bit(wal, log):
    data = log["path"].read_bytes()
    patch(log, 3 * 2048 + 1234, bytes([data[3 * 2048 + 1234] ^ 1]))
    assert wal.read(**log).extents == [
        (0, 3, INTACT, 1, 0),
        (3, 1, CORRUPT, 4, 1234),
        (4, 16, INTACT, 5, 0),
    ]


def test_swapped_records(wal, log):
    data = log["path"].read_bytes()
    patch(log, 3 * 2048, data[9 * 2048 : 10 * 2048])
    assert wal.read(**log).extents == [
        (0, 3, INTACT, 1, 0),
        (3, 1, SlotState.MISDIRECTED, 10, 0),
        (4, 16, INTACT, 5, 0),
    ]


def test_another_run_is_stale(wal, log):
    other = "ff" * 16
    read = wal.read(**log, run_id=other)
    assert read.extents == [(0, 20, STALE, 1, 0)]
    # torn over it: two sectors of the new run, headers first, and the headers not at all
    new = {**log, "path": log["path"].with_name("new")}
    assert wal.write(**new, run_id=other, records=20).acked == 20
    data = new["path"].read_bytes()
    patch(log, 4 * 2048, data[4 * 2048 : 4 * 2048 + 1024])
    patch(log, 6 * 2048 + 1024, data[6 * 2048 + 1024 : 7 * 2048])
    assert wal.read(**log, run_id=other).extents == [
        (0, 4, STALE, 1, 0),
        (4, 1, TORN, 5, 2),
        (5, 1, STALE, 6, 0),
        (6, 1, TORN, 7, 2),
        (7, 13, STALE, 8, 0),
    ]


def test_torn_over_an_older_generation(wal, tmp_path):
    keys = {"path": tmp_path / "log", "layout": "recycled", "record": 1024, "capacity": 16384}
    assert wal.write(**keys, records=16).acked == 16
    old = keys["path"].read_bytes()
    assert wal.write(**keys, records=30).acked == 30
    patch(keys, 3 * 1024, old[3 * 1024 : 3 * 1024 + 512])
    patch(keys, 5 * 1024, old[5 * 1024 : 6 * 1024])
    assert wal.read(**keys).extents == [
        (0, 3, INTACT, 17, 0),
        (3, 1, TORN, 20, 1),
        (4, 1, INTACT, 21, 0),
        (5, 1, INTACT, 6, 0),  # the older generation came back, whole
        (6, 8, INTACT, 23, 0),
        (14, 2, INTACT, 15, 0),
    ]


def test_sectors_that_packed_records_share(wal, tmp_path):
    """Records of 192 bytes: sector 1 (bytes 512 to 1023) holds the end of record 3, records
    4 and 5 and the beginning of record 6."""
    keys = {"path": tmp_path / "log", "record": 192}
    assert wal.write(**keys, records=10).acked == 10
    patch(keys, 512, bytes(512))
    assert wal.read(**keys).extents == [
        (0, 2, INTACT, 1, 0),
        (2, 1, TORN, 3, 1),
        (3, 2, ABSENT, 0, 0),
        (5, 1, TORN, 6, 1),
        (6, 4, INTACT, 7, 0),
    ]


def test_missing_segment(wal, tmp_path):
    keys = {"path": tmp_path / "log", "layout": "segments", "segment": 16384, "record": 1024}
    assert wal.write(**keys, records=70).acked == 70
    files = sorted(keys["path"].iterdir())
    assert [file.name for file in files] == [f"{index:016x}.wal" for index in range(5)]
    files[2].unlink()
    os.truncate(files[3], 2048)
    (keys["path"] / "notes.txt").write_text("not a segment")
    assert wal.read(**keys).extents == [
        (0, 32, INTACT, 1, 0),
        (32, 16, ABSENT, 0, 0),
        (48, 2, INTACT, 49, 0),
        (50, 14, ABSENT, 0, 0),
        (64, 6, INTACT, 65, 0),
        (70, 10, ABSENT, 0, 0),
    ]


def test_a_folder_that_cannot_be_read_to_its_end_is_an_error(wal, tmp_path):
    """Segments that were not listed are not absent."""
    keys = {"path": tmp_path / "log", "layout": "segments", "segment": 16384, "record": 1024}
    assert wal.write(**keys, records=20).acked == 20
    read = wal.read(**keys, preexec=wal_driver.refusing(Refused(GETDENTS64)))
    assert (read.status, read.error) == (1, (errno.EIO, f"readdir {keys['path']}"))


def test_unreadable_slots_only(wal, log):
    """Reads of more than a record fail, and so does that of record 4: the scan goes on."""
    preexec = wal_driver.refusing(Refused(PREAD64, 2, 20 * 2048), Refused(PREAD64, 3, 3 * 2048))
    read = wal.read(**log, preexec=preexec)
    assert read.status == 0
    assert read.extents == [
        (0, 3, INTACT, 1, 0),
        (3, 1, UNREADABLE, 0, errno.EIO),
        (4, 16, INTACT, 5, 0),
    ]


def test_a_log_that_cannot_be_opened_is_an_error(wal, tmp_path):
    (tmp_path / "file").touch()
    read = wal.read(path=tmp_path / "file" / "log")
    assert read.status == 1
    assert read.error == (errno.ENOTDIR, f"open {tmp_path}/file/log")
    assert read.extents == []


def test_a_folder_in_place_of_the_log_is_an_error(wal, tmp_path):
    """Not a file without end: a folder of ext4 is 2^63 - 1 bytes long where one seeks its end."""
    (tmp_path / "log").mkdir()
    read = wal.read(path=tmp_path / "log", record=2048)
    assert read.status == 1
    assert read.error[0] == errno.EISDIR
    (tmp_path / "segments" / f"{0:016x}.wal").mkdir(parents=True)
    read = wal.read(path=tmp_path / "segments", record=2048, layout="segments", segment=4096)
    assert read.extents == [(0, 2, UNREADABLE, 0, errno.EISDIR)]


def test_a_reader_without_memory_fails_and_calls_nothing_corrupt(wal, tmp_path):
    """What an older run has left under the log is known only once all of it was searched."""
    keys = {"path": tmp_path / "log", "record": 512, "layout": "prealloc", "capacity": 64 * 512}
    older = "ff" * 16
    assert wal.write(**keys, run_id=older, records=20).acked == 20
    data = keys["path"].read_bytes()
    assert wal.write(**keys, records=3).acked == 3
    patch(keys, 512 * 10 + 64, data[512 * 10 + 64 : 512 * 11])  # payload without its header
    patch(keys, 512 * 12, data[512 * 12 : 512 * 13])  # and the header that names the older run
    right = wal.read(**keys)
    assert right.status == 0
    assert CORRUPT not in {state for _, _, state, _, _ in right.extents}
    endings = set()
    for limit in range(256 << 10, 6 << 20, 128 << 10):
        read = wal.read(**keys, preexec=with_memory(limit))
        endings.add(read.status)
        if read.status == 0:
            assert read.extents == right.extents
        elif read.status == 1:
            assert read.error == (errno.ENOMEM, "malloc")
    assert {0, 1} <= endings, "some limits are too low for the reader, and some are not"


def forged(record, *, size, **fields):
    """The bytes of `record` with other fields in its header, under a checksum that fits them."""
    header = np.frombuffer(record[: wal.CHUNK], dtype=wal.HEADER).copy()
    for name, value in fields.items():
        header[name] = value
    header["header_crc"] = crc32c(header.tobytes()[:-4])
    return header.tobytes() + record[wal.CHUNK : size]


@pytest.mark.parametrize("size", [64, 512])
@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"generation": 1}, CORRUPT),
        ({"stream": 128}, CORRUPT),
        ({"length": 1024}, CORRUPT),
        ({"length": 8}, CORRUPT),
        ({"payload_crc": 7}, CORRUPT),
        ({"position": 1 << 20}, SlotState.MISDIRECTED),
        ({"lsn": 9}, SlotState.MISDIRECTED),
        ({"run_id": np.void(b"another run, 16.")}, STALE),
    ],
)
def test_a_header_that_is_right_but_for_one_field_is_not_believed(
    wal, tmp_path, size, fields, state
):
    """Its checksum fits: only the field itself says that this run cannot have written it here.

    A record of 64 bytes has no payload that would tell.
    """
    keys = {"path": tmp_path / "log", "record": size}
    assert wal.write(**keys, records=6).acked == 6
    data = keys["path"].read_bytes()[3 * size : 4 * size]
    patch(keys, 3 * size, forged(data, size=size))
    assert wal.read(**keys).extents == [(0, 6, INTACT, 1, 0)]
    patch(keys, 3 * size, forged(data, size=size, **fields))
    read = wal.read(**keys)
    (found,) = [extent for extent in read.extents if extent[0] <= 3 < extent[0] + extent[1]]
    if size == 512 and "run_id" in fields:
        state = TORN  # the payload is this run's
    assert found[2] is state


def test_payload_of_another_record_under_a_checksum_that_fits_is_not_believed(wal, tmp_path):
    keys = {"path": tmp_path / "log", "record": 512}
    assert wal.write(**keys, records=6).acked == 6
    data = keys["path"].read_bytes()
    other = data[4 * 512 + 64 : 5 * 512]
    swapped = data[3 * 512 : 3 * 512 + 64] + other
    patch(keys, 3 * 512, forged(swapped, size=512, payload_crc=crc32c(other)))
    assert (3, 1) in {
        (slot, count)
        for slot, count, state, _, _ in wal.read(**keys).extents
        if state is not INTACT
    }
