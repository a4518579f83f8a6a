# SPDX-License-Identifier: Apache-2.0
"""Faults planted into the workload: the reader, or the channel, shows exactly what was planted."""

import errno

import pytest
import wal_driver
from wal_driver import FDATASYNC, PWRITEV2, Refused

from powercut.channel.wire import MessageType
from powercut.wal.layout import SlotState

ABSENT, CORRUPT, INTACT = SlotState.ABSENT, SlotState.CORRUPT, SlotState.INTACT
MISDIRECTED, STALE, TORN = SlotState.MISDIRECTED, SlotState.STALE, SlotState.TORN

SHAPES = [(1024, 0), (1088, 0), (1088, 512), (4096, 4096)]


@pytest.fixture(params=[0, 1], ids=["buffered", "direct"])
def direct(request, tmp_path):
    if request.param:
        wal_driver.probe_direct(tmp_path)
    return request.param


def keys_of(folder, layout, record, align):
    stride = record if not align else -(-record // align) * align
    keys = {"path": folder / "log", "layout": layout, "record": record, "align": align}
    if layout == "prewritten":
        keys["capacity"] = -(-20 * stride // 4096) * 4096
    return keys


def run(wal, keys, plant, **more):
    """Twenty records, the planted fault among them, in groups of three."""
    done = wal.write(**keys, records=20, batch=3, plant=plant, **more)
    assert (done.status, done.acked) == (0, 20)
    return [extent for extent in wal.read(**keys).extents if extent[0] < 20]


@pytest.mark.parametrize(("record", "align"), SHAPES)
@pytest.mark.parametrize("layout", ["append", "prewritten"])
@pytest.mark.parametrize("lsn", [2, 9, 10, 20])
def test_wrong_offset(wal, tmp_path, direct, layout, record, align, lsn):
    keys = keys_of(tmp_path, layout, record, align)
    found = run(wal, keys, f"wrong-offset:{lsn}", direct=direct)
    hole = (lsn - 1, 1, STALE, lsn, 0) if layout == "prewritten" else (lsn - 1, 1, ABSENT, 0, 0)
    expected = [
        (0, lsn - 2, INTACT, 1, 0),
        (lsn - 2, 1, MISDIRECTED, lsn, 0),
        hole,
        (lsn, 20 - lsn, INTACT, lsn + 1, 0),
    ]
    assert [e[:5] for e in found][: len(expected)] == clipped(expected, found)


def clipped(expected, found):
    """Without empty extents; what follows the last record may have been joined to it."""
    extents = [extent for extent in expected if extent[1]]
    last, seen = extents[-1], found[len(extents) - 1]
    if seen[:1] + seen[2:] == last[:1] + last[2:] and seen[1] > last[1]:
        extents[-1] = seen
    return extents


@pytest.mark.parametrize(("record", "align"), SHAPES)
@pytest.mark.parametrize("layout", ["append", "prewritten"])
def test_torn_write(wal, tmp_path, direct, layout, record, align):
    keys = keys_of(tmp_path, layout, record, align)
    stride = record if not align else -(-record // align) * align
    found = run(wal, keys, "torn-write:7", direct=direct)
    start, end = 6 * stride, 6 * stride + record
    sectors = -(-end // 512) - start // 512
    assert found[:3] == [
        (0, 6, INTACT, 1, 0),
        (6, 1, TORN, 7, sectors // 2),
        (7, 13, INTACT, 8, 0),
    ]


@pytest.mark.parametrize(("record", "align"), [(64, 0), *SHAPES])
@pytest.mark.parametrize("layout", ["append", "prewritten"])
def test_flip_bit(wal, tmp_path, direct, layout, record, align):
    found = run(wal, keys_of(tmp_path, layout, record, align), "flip-bit:7", direct=direct)
    assert found[:3] == [
        (0, 6, INTACT, 1, 0),
        (6, 1, CORRUPT, 7, record // 2),
        (7, 13, INTACT, 8, 0),
    ]


@pytest.mark.parametrize(("record", "align"), SHAPES)
def test_replay_old_over_prewritten(wal, tmp_path, direct, record, align):
    keys = keys_of(tmp_path, "prewritten", record, align)
    found = run(wal, keys, "replay-old:7", direct=direct)
    assert found[:3] == [(0, 6, INTACT, 1, 0), (6, 1, STALE, 7, 0), (7, 13, INTACT, 8, 0)]


def test_replay_old_in_a_ring(wal, tmp_path):
    """The slot of LSN 25 holds LSN 5 again, a whole record of this run."""
    keys = {"path": tmp_path / "log", "layout": "recycled", "capacity": 10240}
    done = wal.write(**keys, records=30, plant="replay-old:25")
    assert done.acked == 30
    assert wal.read(**keys).extents == [
        (0, 4, INTACT, 21, 0),
        (4, 1, INTACT, 5, 0),
        (5, 5, INTACT, 26, 0),
        (10, 10, INTACT, 11, 0),
    ]


@pytest.mark.parametrize(
    ("sync", "refused"),
    [("fdatasync", Refused(FDATASYNC)), ("rwf_dsync", Refused(PWRITEV2, 5, 2))],
)
def test_early_ack(wal, tmp_path, sync, refused):
    """The ack of the group whose sync fails is out already; without the fault there is none."""
    for plant, acked in (("none", 0), ("early-ack", 1)):
        preexec = wal_driver.refusing(refused)
        done = wal.write(path=tmp_path / plant, sync=sync, records=5, plant=plant, preexec=preexec)
        assert (done.status, done.acked, done.error[0]) == (1, acked, errno.EIO)
        assert done.messages[-1].type is MessageType.ERROR


@pytest.mark.parametrize(
    ("sync", "refused"),
    [("fdatasync", Refused(FDATASYNC)), ("rwf_dsync", Refused(PWRITEV2, 5, 2))],
)
def test_skip_sync(wal, tmp_path, sync, refused):
    """Every group's sync is left out: that it would fail is never noticed."""
    preexec = wal_driver.refusing(refused)
    done = wal.write(
        path=tmp_path / "log", sync=sync, records=5, plant="skip-sync:1", preexec=preexec
    )
    assert (done.status, done.acked) == (0, 5)
    preexec = wal_driver.refusing(refused)
    done = wal.write(
        path=tmp_path / "log", sync=sync, records=5, plant="skip-sync:2", preexec=preexec
    )
    assert (done.status, done.acked) == (1, 0)


def test_ack_failed_sync(wal, tmp_path):
    preexec = wal_driver.refusing(Refused(FDATASYNC))
    done = wal.write(path=tmp_path / "log", records=5, plant="ack-failed-sync", preexec=preexec)
    assert (done.status, done.acked) == (0, 5)
    assert done.of(MessageType.ERROR) == []
