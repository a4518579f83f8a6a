# SPDX-License-Identifier: Apache-2.0
"""What every disk under test has to keep to its port: the capture disk, and a fake.

Cases of the capture disk alone (its log, what is in flight, tearing) are in test_capture_disk.
In a picture of the disk each letter is a sector: B is the base image, 0 are zeroes.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from fake_disk import FakeDisk
from nbd_client import NbdClient, NbdError

from powercut.disk.capture import CaptureDisk, Disk
from powercut.disk.capture_config import CaptureConfig
from powercut.model.contract import CutPolicy, DeviceContract, Honour
from powercut.model.errors import HostError

S = 512
SECTORS = 64
SOON_S = 120.0
BRIEF_S = 0.05
GONE = (ConnectionError, NbdError)


@pytest.fixture
def folder():
    """Not pytest's own folder: the path of a unix socket has to be short."""
    with tempfile.TemporaryDirectory(prefix="pcdisk-test-") as name:
        (Path(name) / "base").write_bytes(b"B" * S * SECTORS)
        yield Path(name)


@pytest.fixture(params=["capture", "fake"])
def opened(request, folder):
    made = []

    def open_disk(**contract):
        base, promises = folder / "base", DeviceContract(**contract)
        if request.param == "fake":
            disk = FakeDisk(base, folder, promises)
        else:
            disk = CaptureDisk(CaptureConfig(base, folder / "log", promises, sockets=folder))
            disk.__enter__()
        made.append(disk)
        return disk

    yield open_disk
    for disk in made:
        disk.close()
        disk.close()
        if request.param == "capture":
            disk.__exit__(None, None, None)


def write(client, at, letters, *, fua=False):
    client.write(at * S, b"".join(c.encode() * S for c in letters), fua=fua)


def picture(data, count=8):
    parts = (data[i * S : i * S + S] for i in range(count))
    return "".join("0" if part == bytes(S) else chr(part[0]) for part in parts)


def cut(disk: Disk, policy=CutPolicy.DROP, seed=0):
    return disk.cut(policy, seed, None, timeout_s=SOON_S)


def left(disk: Disk, folder: Path, count=8) -> str:
    """What a new client sees, and a snapshot says as well."""
    with NbdClient(disk.socket) as client:
        seen = client.read_all()
    snapshot = folder / "snapshot"
    snapshot.unlink(missing_ok=True)
    disk.snapshot(snapshot)
    assert snapshot.read_bytes() == seen
    return picture(seen, count)


def test_flush_and_fua_make_durable_what_they_cover_and_nothing_more(opened, folder):
    disk = opened()
    assert disk.size == S * SECTORS
    with NbdClient(disk.socket) as client:
        write(client, 0, "a")
        client.flush()
        write(client, 1, "b")
        write(client, 2, "c", fua=True)
        client.zero(3 * S, S, fua=True, may_trim=False)
        client.trim(4 * S, S)
        assert picture(client.read_all()) == "abc00BBB"
        counts = disk.statistics()
    report = cut(disk)
    assert left(disk, folder) == "aBc0BBBB"
    assert (counts.writes, counts.write_bytes, counts.fua_writes) == (3, 3 * S, 2)
    assert (counts.flushes, counts.zeroes, counts.discards) == (1, 1, 1)
    assert (counts.volatile_writes, counts.volatile_bytes) == (2, 2 * S)
    assert (report.dropped_writes, report.dropped_bytes, report.survived_writes) == (2, 2 * S, 0)
    assert disk.statistics().writes == 0, "they count since the last cut"


@pytest.mark.parametrize(
    ("contract", "after"),
    [
        ({"flush": Honour.IGNORED}, "BBcB"),
        ({"fua": Honour.IGNORED}, "aBBB"),
        ({"flush": Honour.IGNORED, "fua": Honour.IGNORED}, "BBBB"),
        ({"volatile_cache": False}, "abcB"),
        ({"volatile_cache": False, "flush": Honour.IGNORED, "fua": Honour.IGNORED}, "abcB"),
    ],
)
def test_a_disk_is_as_honest_as_its_contract(opened, folder, contract, after):
    disk = opened(**contract)
    with NbdClient(disk.socket) as client:
        write(client, 0, "a")
        client.flush()
        write(client, 1, "b")
        write(client, 2, "c", fua=True)
        assert picture(client.read_all(), 4) == "abcB", "until the cut nobody sees a difference"
    cut(disk)
    assert left(disk, folder, 4) == after


def test_an_older_cached_write_never_overwrites_a_newer_durable_one(opened, folder):
    disk = opened()
    with NbdClient(disk.socket) as client:
        write(client, 0, "aaaa")
        write(client, 1, "b", fua=True)
        client.trim(2 * S, S, fua=True)
        client.flush()
    cut(disk)
    assert left(disk, folder, 5) == "ab0aB"


def test_a_flush_covers_all_connections(opened, folder):
    disk = opened()
    with NbdClient(disk.socket) as one, NbdClient(disk.socket) as two:
        assert one.flags & (1 << 8), "the server must offer multi-conn"
        write(one, 0, "a")
        write(two, 1, "b")
        assert picture(two.read_all(), 3) == "abB"
        two.flush()
        write(one, 2, "c")
    cut(disk)
    assert left(disk, folder, 4) == "abBB"


def test_a_full_cache_destages_its_oldest_writes(opened, folder):
    disk = opened(cache_size=2 * S)
    with NbdClient(disk.socket) as client:
        for at, letter in enumerate("abcd"):
            write(client, at, letter)
    cut(disk)
    assert left(disk, folder, 5) == "abBBB"


def some_writes(disk: Disk) -> None:
    with NbdClient(disk.socket) as client:
        for at, letter in enumerate("abcdefgh"):
            write(client, at, letter)


def test_a_cut_that_keeps_all_drops_nothing(opened, folder):
    disk = opened()
    some_writes(disk)
    report = cut(disk, CutPolicy.KEEP)
    assert (report.dropped_writes, report.survived_writes) == (0, 8)
    assert left(disk, folder) == "abcdefgh"


@pytest.mark.parametrize("policy", [CutPolicy.PREFIX, CutPolicy.RANDOM])
def test_what_a_seed_leaves_it_leaves_again(opened, folder, policy):
    disk, seen = opened(), []
    for seed in (1, 2, 3, 4, 5, 6, 1):
        with NbdClient(disk.socket) as client:
            write(client, 0, "BBBBBBBB", fua=True)
        cut(disk)  # so that requests are counted from the same number
        some_writes(disk)
        cut(disk, policy, seed)
        seen.append(left(disk, folder))
    assert seen[0] == seen[-1]
    assert len(set(seen)) > 1
    for after in seen:
        assert all(c in ("B", "abcdefgh"[at]) for at, c in enumerate(after))
        if policy is CutPolicy.PREFIX:
            assert after == "abcdefgh"[: len(after.rstrip("B"))].ljust(8, "B")


def test_a_cut_ends_old_connections_and_takes_new_ones(opened, folder):
    disk = opened()
    with NbdClient(disk.socket) as old:
        write(old, 0, "a")
        cut(disk)
        with pytest.raises(GONE):
            old.read(0, S)
        with NbdClient(disk.socket) as new:
            write(new, 1, "b", fua=True)
    assert left(disk, folder, 3) == "BbB"


def test_a_disk_that_stops_at_a_flush_answers_nothing_until_the_cut(opened, folder):
    disk = opened()
    disk.stop_at_flush(2)
    with NbdClient(disk.socket) as client:
        write(client, 0, "a")
        client.flush()
        assert not disk.wait_stopped(timeout_s=BRIEF_S)
        write(client, 1, "b")
        handle = client.begin_flush()
        assert disk.wait_stopped(timeout_s=SOON_S)
        cut(disk)
        with pytest.raises(GONE):
            client.finish(handle)
    assert left(disk, folder, 3) == "aBB"


def test_a_disk_that_stops_after_so_many_completions(opened, folder):
    disk = opened()
    with NbdClient(disk.socket) as client:
        write(client, 0, "a", fua=True)
        disk.stop_after(0, taking=False)
        assert disk.wait_stopped(timeout_s=SOON_S)
        client.begin_write(S, b"b" * S, fua=True)
        cut(disk)
    assert left(disk, folder, 1) == "a"
    with NbdClient(disk.socket) as client:
        write(client, 0, "c", fua=True)
    assert left(disk, folder, 1) == "c"


def test_nobody_is_served_once_it_is_closed(opened):
    disk = opened()
    disk.mark("the end")
    disk.close()
    with pytest.raises(HostError, match="no NBD server"):
        NbdClient(disk.socket)
