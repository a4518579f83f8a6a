# SPDX-License-Identifier: Apache-2.0
"""The WAL workload on files of the host: what it promises and what it reads back."""

import errno
import os
import signal
import socket
import struct
from pathlib import Path

import pytest
import wal_driver
from wal_driver import FDATASYNC, FSYNC, PWRITEV2, Refused

from powercut.channel.wire import MessageType
from powercut.wal.layout import SlotState

ABSENT, INTACT, STALE = SlotState.ABSENT, SlotState.INTACT, SlotState.STALE
RECORDS = 50
CAPACITY = 192 * 1024

LAYOUTS = {
    "append": {},
    "prealloc": {"capacity": CAPACITY},
    "prewritten": {"capacity": CAPACITY},
    "recycled": {"capacity": CAPACITY},
    "segments": {"segment": 32768},
    "raw": {"capacity": CAPACITY, "offset": 8192},
}


def log_keys(folder, layout, record, align=0):
    path = folder / "log"
    if layout == "raw":
        with path.open("wb") as image:
            image.truncate(CAPACITY + 8192)
    return {"path": path, "layout": layout, "record": record, "align": align, **LAYOUTS[layout]}


def slots_of(layout, record, align):
    stride = record if not align else (record + align - 1) // align * align
    return None if layout in ("append", "segments") else CAPACITY // stride


def expected_extents(layout, record, align, keys):
    """After RECORDS records in LSN order."""
    slots = slots_of(layout, record, align)
    stride = record if not align else (record + align - 1) // align * align
    if layout == "append":
        slots = -(-keys["path"].stat().st_size // stride)
    if layout == "segments":
        per_file = 32768 // stride
        slots = -(-RECORDS // per_file) * per_file
    extents = [(0, min(RECORDS, slots), INTACT, 1, 0)]
    if slots < RECORDS and layout in ("recycled", "raw"):
        # the ring went round: slot k holds k + 1 + slots, if that was written
        newer = RECORDS - slots
        extents = [(0, newer, INTACT, slots + 1, 0), (newer, slots - newer, INTACT, newer + 1, 0)]
    elif slots > RECORDS and layout in ("prewritten", "recycled"):
        extents.append((RECORDS, slots - RECORDS, STALE, RECORDS + 1, 0))
    elif slots > RECORDS:
        extents.append((RECORDS, slots - RECORDS, ABSENT, 0, 0))
    return extents


@pytest.mark.parametrize(("record", "align"), [(64, 0), (192, 0), (192, 512), (4096, 0)])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("direct", [0, 1])
@pytest.mark.parametrize("engine", ["pwrite", "libaio", "io_uring"])
def test_what_was_written_is_read_back(wal, tmp_path, engine, direct, layout, record, align):
    wal_driver.probe_engine(wal, engine, tmp_path)
    if direct:
        wal_driver.probe_direct(tmp_path)
    keys = log_keys(tmp_path, layout, record, align)
    depth = 1 if engine == "pwrite" else 3
    done = wal.write(
        **keys, engine=engine, direct=direct, depth=depth, streams=3, batch=2, records=RECORDS
    )
    assert (done.status, done.stderr) == (0, "")
    kinds = [message.type for message in done.messages]
    assert kinds[:2] == [MessageType.READY, MessageType.ATTEMPT]
    attempts, acks = done.of(MessageType.ATTEMPT), done.of(MessageType.ACK)
    assert [m.lsn for m in attempts] == [m.lsn for m in acks]
    slots = slots_of(layout, record, align)
    wanted = min(RECORDS, slots) if layout in ("prealloc", "prewritten") else RECORDS
    assert sum(ack.value for ack in acks) == acks[-1].lsn == wanted
    read = wal.read(**keys)
    assert (read.status, read.stderr) == (0, "")
    assert read.extents == expected_extents(layout, record, align, keys)


@pytest.mark.parametrize("direct", [0, 1])
@pytest.mark.parametrize(
    "sync", ["none", "fsync", "fdatasync", "o_dsync", "o_sync", "rwf_dsync", "alternate"]
)
def test_sync_modes(wal, tmp_path, sync, direct):
    if direct:
        wal_driver.probe_direct(tmp_path)
    keys = log_keys(tmp_path, "append", 576)
    done = wal.write(**keys, sync=sync, direct=direct, records=RECORDS)
    assert (done.status, done.acked) == (0, RECORDS)
    assert wal.read(**keys).extents[0] == (0, RECORDS, INTACT, 1, 0)


@pytest.mark.parametrize(
    ("sync", "refused", "call"),
    [
        ("fsync", Refused(FSYNC), "fsync"),
        ("fdatasync", Refused(FDATASYNC), "fdatasync"),
        ("rwf_dsync", Refused(PWRITEV2, 5, 2), "pwritev2"),
        # a new file's name is made durable before the first ack, whatever the mode
        ("o_dsync", Refused(FSYNC), "fsync"),
        ("rwf_dsync", Refused(FSYNC), "fsync"),
        ("alternate", Refused(FDATASYNC), "fdatasync"),
        ("alternate", Refused(FSYNC), "fsync"),
    ],
)
def test_never_an_ack_after_a_failed_sync(wal, tmp_path, sync, refused, call):
    path = tmp_path / "log"
    preexec = wal_driver.refusing(refused)
    done = wal.write(path=path, sync=sync, streams=2, records=10, preexec=preexec)
    assert done.status == 1
    assert done.of(MessageType.ACK) == []
    assert done.error[0] == errno.EIO
    assert done.error[1].startswith(f"{call} ")
    assert str(path) in done.error[1]


def test_the_error_ends_the_acks(wal, tmp_path):
    """A file that may not grow beyond 10 records: ten acks, then the call that failed."""
    path = tmp_path / "log"
    done = wal.write(path=path, record=512, records=50, preexec=wal_driver.limited(5120))
    assert (done.status, done.acked) == (1, 10)
    assert done.error == (errno.EFBIG, f"pwrite on {path}")
    assert done.messages[-1].type is MessageType.ERROR
    assert wal.read(path=path, record=512).extents == [(0, 10, INTACT, 1, 0)]


@pytest.mark.parametrize(
    ("keys", "flags"),
    [
        ({"sync": "o_dsync"}, os.O_DSYNC),
        ({"sync": "o_sync"}, os.O_SYNC),
        ({"sync": "fsync"}, 0),
        ({"sync": "o_dsync", "direct": 1}, os.O_DSYNC | os.O_DIRECT),
    ],
)
def test_open_flags(wal, tmp_path, keys, flags):
    if keys.get("direct"):
        wal_driver.probe_direct(tmp_path)
    path = tmp_path / "log"
    ours, theirs = socket.socketpair()
    with ours, theirs, wal.start(theirs.fileno(), path=path, think_us=10**8, **keys) as process:
        theirs.close()
        ours.settimeout(wal_driver.TIMEOUT_S)
        ours.recv(40)  # READY
        files = Path(f"/proc/{process.pid}/fd").iterdir()
        (fd,) = (file.name for file in files if file.readlink() == path)
        with Path(f"/proc/{process.pid}/fdinfo/{fd}").open() as info:
            found = int(dict(line.split(":", 1) for line in info)["flags"], 8)
        process.kill()
    assert found & (os.O_SYNC | os.O_DIRECT) == flags


def test_one_write_for_each_group(wal, tmp_path):
    """An ack and the next attempt leave together; nothing is split."""
    done = wal.write_packets(path=tmp_path / "log", records=20, batch=4)
    kinds = [[m.type.name for m in wal_driver.decode(packet)] for packet in done.packets]
    assert done.status == 0
    assert kinds == [
        ["READY"],
        ["ATTEMPT"],
        *[["ACK", "ATTEMPT"]] * 4,
        ["ACK"],
        ["LATENCY"],
    ]


@pytest.mark.parametrize("layout", ["append", "prewritten", "recycled", "raw"])
@pytest.mark.parametrize("direct", [0, 1])
@pytest.mark.parametrize("engine", ["pwrite", "libaio", "io_uring"])
def test_alternate_acknowledges_everything_in_order(wal, tmp_path, engine, direct, layout):
    """Many streams, packed records, a ring that goes round: each record is acked once, after
    its attempt, and is there."""
    wal_driver.probe_engine(wal, engine, tmp_path)
    if direct:
        wal_driver.probe_direct(tmp_path)
    keys = log_keys(tmp_path, layout, 192)
    depth = 1 if engine == "pwrite" else 4
    done = wal.write(
        **keys, sync="alternate", engine=engine, direct=direct, depth=depth, streams=7, records=900
    )
    assert (done.status, done.stderr) == (0, "")
    attempted = acked = 0
    for message in done.messages:
        if message.type is MessageType.ATTEMPT:
            assert message.lsn == attempted + message.value
            attempted = message.lsn
        if message.type is MessageType.ACK:
            assert message.lsn == acked + message.value <= attempted
            acked = message.lsn
    assert acked == attempted == 900
    assert wal.read(**keys).extents[0] == (0, 900, INTACT, 1, 0)
    latency = struct.unpack("<499Q", done.of(MessageType.LATENCY)[-1].payload)
    assert latency[0] == 900


def test_alternate_ends_with_the_write_that_fails(wal, tmp_path):
    path = tmp_path / "log"
    done = wal.write(
        path=path, record=512, sync="alternate", streams=3, preexec=wal_driver.limited(51200)
    )
    assert (done.status, done.error) == (1, (errno.EFBIG, f"pwrite on {path}"))
    assert done.acked <= 100
    assert done.messages[-1].type is MessageType.ERROR


def test_latency_counts_every_append(wal, tmp_path):
    done = wal.write(path=tmp_path / "log", records=100, streams=4, batch=5)
    latency = done.of(MessageType.LATENCY)[-1]
    count, total, largest, *buckets = struct.unpack("<499Q", latency.payload)
    assert count == sum(buckets) == 20
    assert largest <= total


def test_what_was_acked_before_a_kill_is_there(wal, tmp_path):
    path = tmp_path / "log"
    ours, theirs = socket.socketpair()
    with ours, theirs, wal.start(theirs.fileno(), path=path, streams=4, batch=3) as process:
        theirs.close()
        ours.settimeout(wal_driver.TIMEOUT_S)
        data = b""
        while len(data) < 8000:
            data += ours.recv(4096)
        process.kill()
        while more := ours.recv(4096):
            data += more
    assert process.returncode == -signal.SIGKILL
    messages = wal_driver.decode(data)
    acked = max(m.lsn for m in messages if m.type is MessageType.ACK)
    attempted = max(m.lsn for m in messages if m.type is MessageType.ATTEMPT)
    slot, count, state, lsn, _ = wal.read(path=path).extents[0]
    assert (slot, state, lsn) == (0, INTACT, 1)
    assert acked <= count <= attempted


def test_a_run_goes_on(wal, tmp_path):
    for layout in ("append", "segments", "recycled", "raw"):
        folder = tmp_path / layout
        folder.mkdir()
        keys = log_keys(folder, layout, 192)
        for first in (1, 26, 51):
            done = wal.write(**keys, first_lsn=first, records=25)
            assert done.acked == first + 24
        assert wal.read(**keys).extents[0] == (0, 75, INTACT, 1, 0)


def test_a_bounded_log_ends_when_it_is_full(wal, tmp_path):
    for layout in ("prealloc", "prewritten"):
        keys = {"path": tmp_path / layout, "layout": layout, "capacity": 51200}
        done = wal.write(**keys, sync="none")
        assert (done.status, done.acked) == (0, 100)
        assert wal.read(**keys).extents == [(0, 100, INTACT, 1, 0)]


def test_a_ring_goes_round(wal, tmp_path):
    keys = {"path": tmp_path / "log", "layout": "recycled", "capacity": 5120}
    assert wal.write(**keys, records=1037, batch=5, sync="none").acked == 1037
    # 103 rounds and 7 records
    assert wal.read(**keys).extents == [(0, 7, INTACT, 1031, 0), (7, 3, INTACT, 1028, 0)]


def test_time_limit(wal, tmp_path):
    done = wal.write(path=tmp_path / "log", seconds=1, think_us=1000, sync="none")
    assert done.status == 0
    assert done.acked > 0


REFUSALS = [
    ({"record": 100, "align": 7, "depth": 2}, ["record=100", "align=7", "depth=2"]),
    ({"layout": "recycled", "capacity": 4096, "streams": 9}, ["9 records a commit"]),
    ({"layout": "segments", "segment": 4096, "batch": 9}, ["9 records a commit"]),
    ({"nonsense": 1, "direct": 2}, ["no such key: 'nonsense'", "direct=2"]),
]


@pytest.mark.parametrize(("keys", "reasons"), REFUSALS)
def test_refusals_name_every_reason(wal, tmp_path, keys, reasons):
    done = wal.write(path=tmp_path / "log", records=1, **keys)
    assert done.status == 2
    assert done.error[0] == errno.EINVAL
    assert [kind.type for kind in done.messages] == [MessageType.ERROR]
    for reason in reasons:
        assert reason in done.error[1]
        assert reason in done.stderr


def test_direct_refuses_what_would_need_half_a_block(wal, tmp_path):
    wal_driver.probe_direct(tmp_path)
    path = tmp_path / "log"
    done = wal.write(path=path, layout="prealloc", capacity=10000, direct=1, records=1)
    assert done.status == 2
    assert "capacity=10000: with direct=1" in done.error[1]
    assert path.stat().st_size == 0


def test_a_device_that_is_not_there_is_not_made(wal, tmp_path):
    path = tmp_path / "vda"
    done = wal.write(path=path, layout="raw", capacity=4096)
    assert (done.status, done.error) == (1, (errno.ENOENT, f"open {path}"))
    assert not path.exists()


def test_usage(wal):
    assert wal.run("erase", run_id="").status == 2
    assert wal.write(path="").status == 2
