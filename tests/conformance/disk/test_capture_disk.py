# SPDX-License-Identifier: Apache-2.0
"""The capture disk against its contract: what survives a cut, exactly, case by case.

Disk and client are the real ones.  In a picture of the disk each letter is a sector:
B is the base image, 0 are zeroes.
"""

import errno
import hashlib
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import host_needs
import nbd_client
import numpy as np
import pytest
from nbd_client import NbdClient, NbdError
from small_disk import small_disk
from stopped import stop
from surviving import surviving_image

from powercut.disk.capture import CaptureDisk, Disk
from powercut.disk.capture_config import CaptureConfig
from powercut.disk.pclog import host_failures, injected_errors, read_timeline
from powercut.disk.pclog_format import EVENT, EventType
from powercut.model.contract import CutPolicy, DeviceContract, Honour
from powercut.model.errors import DeadlineExceeded, HostError
from powercut.model.timeline import InFlight
from powercut.model.units import NEVER
from powercut.sandbox.users import FIRST
from powercut.scenario.settings_errors import DiskError

S = 512
SECTORS = 128
TIMEOUT_S = 120.0
LONG_NS = 20_000_000_000
"""A latency that no test waits for: what sleeps this long is in flight at the cut."""


@pytest.fixture
def folder():
    """Not pytest's own folder: the path of a unix socket has to be short."""
    with tempfile.TemporaryDirectory(prefix="pcdisk-test-") as name:
        (Path(name) / "base").write_bytes(b"B" * S * SECTORS)
        yield Path(name)


@contextmanager
def running(folder, contract=None, **more):
    config = CaptureConfig(
        folder / "base", folder / "log", contract or DeviceContract(), sockets=folder, **more
    )
    with CaptureDisk(config) as disk:
        yield disk


def sectors(letters):
    return b"".join(bytes(S) if c == "0" else c.encode() * S for c in letters)


def write(client, at, letters, *, fua=False):
    client.write(at * S, sectors(letters), fua=fua)


def picture(data, count=8):
    return "".join(
        "0" if part == bytes(S) else chr(part[0]) if part == part[:1] * S else "!"
        for part in (data[i * S : i * S + S] for i in range(count))
    )


def cut(disk, policy=CutPolicy.DROP, seed=0, next_log=None):
    return disk.cut(policy, seed, next_log, timeout_s=TIMEOUT_S)


def surviving(folder, disk, count=8):
    """What three witnesses agree on: a new client, a snapshot, and the log's replay."""
    timeline = read_timeline(folder / "log", verify_payloads=True)
    replayed = surviving_image(timeline, folder / "base").tobytes()
    with NbdClient(disk.socket) as client:
        seen = client.read_all()
    (folder / "snapshot").unlink(missing_ok=True)
    disk.snapshot(folder / "snapshot")
    assert (folder / "snapshot").read_bytes() == seen
    assert replayed == seen
    return picture(seen, count)


# -- what is durable --------------------------------------------------------------------


def test_honest_flush_and_fua(folder):
    with running(folder) as disk:
        with NbdClient(disk.socket) as client:
            write(client, 0, "a")
            client.flush()
            write(client, 1, "b")
            write(client, 2, "c", fua=True)
            client.zero(3 * S, S, fua=True, may_trim=False)
            client.trim(4 * S, S)
            assert picture(client.read_all()) == "abc00BBB"
            statistics = disk.statistics()
        report = cut(disk)
        assert surviving(folder, disk) == "aBc0BBBB"
    assert (statistics.writes, statistics.write_bytes, statistics.fua_writes) == (3, 3 * S, 2)
    assert (statistics.flushes, statistics.zeroes, statistics.discards) == (1, 1, 1)
    assert (statistics.volatile_writes, statistics.volatile_bytes) == (2, 2 * S)
    assert (report.dropped_writes, report.dropped_bytes, report.survived_writes) == (2, 2 * S, 0)


def test_trimmed_and_zeroed_sectors_read_as_zeroes_after_the_cut(folder):
    with running(folder) as disk:
        with NbdClient(disk.socket) as client:
            write(client, 0, "abcdef")
            client.trim(S, S)
            client.zero(3 * S, S)
            client.zero(5 * S, S, may_trim=False)
            client.flush()
        cut(disk)
        assert surviving(folder, disk) == "a0c0e0BB"


def test_ignored_flush(folder):
    with running(folder, DeviceContract(flush=Honour.IGNORED)) as disk:
        with NbdClient(disk.socket) as client:
            write(client, 0, "a")
            client.flush()
            write(client, 1, "b", fua=True)
        cut(disk)
        assert surviving(folder, disk, 3) == "BbB"


def test_ignored_fua(folder):
    with running(folder, DeviceContract(fua=Honour.IGNORED)) as disk:
        with NbdClient(disk.socket) as client:
            write(client, 0, "a", fua=True)
            client.flush()
            write(client, 1, "b", fua=True)
        cut(disk)
        assert surviving(folder, disk, 3) == "aBB"


def test_no_volatile_cache(folder):
    contract = DeviceContract(volatile_cache=False, flush=Honour.IGNORED, fua=Honour.IGNORED)
    with running(folder, contract) as disk:
        with NbdClient(disk.socket) as client:
            write(client, 0, "a")
            client.trim(S, S)
        assert cut(disk).dropped_writes == 0
        assert surviving(folder, disk, 3) == "a0B"


def test_a_flush_covers_what_completed_before_its_submission_and_nothing_more(folder):
    contract = DeviceContract(flush_latency_ns=300_000_000)
    with running(folder, contract) as disk:
        with NbdClient(disk.socket) as client:
            write(client, 0, "a")
            flush = client.begin_flush()
            while disk.statistics().flushes != 1:
                pass
            write(client, 1, "b")  # completes while the flush is in flight
            client.finish(flush)
        timeline = read_timeline(folder / "log", verify_payloads=True)
        submitted, completed = timeline.requests.submitted_ns, timeline.requests.completed_ns
        assert submitted[1] < completed[2] < completed[1] != NEVER
        cut(disk)
        assert surviving(folder, disk, 3) == "aBB"


def test_fua_does_not_make_earlier_writes_durable(folder):
    with running(folder) as disk:
        with NbdClient(disk.socket) as client:
            write(client, 0, "aaa")
            write(client, 1, "b", fua=True)
        cut(disk)
        assert surviving(folder, disk, 4) == "BbBB"


def test_an_older_cached_write_never_overwrites_a_newer_durable_one(folder):
    with running(folder) as disk:
        with NbdClient(disk.socket) as client:
            write(client, 0, "aaaa")
            write(client, 1, "b", fua=True)
            client.trim(2 * S, S, fua=True)
            client.flush()
        cut(disk)
        assert surviving(folder, disk, 5) == "ab0aB"


def test_a_disk_may_offer_no_flush(folder):
    with running(folder, offer_flush=False) as disk, NbdClient(disk.socket) as client:
        assert not client.flags & (1 << 2)
        assert not client.flags & (1 << 3), "FUA is a flush, too"


def test_a_flush_covers_all_connections(folder):
    with running(folder) as disk:
        with NbdClient(disk.socket) as one, NbdClient(disk.socket) as two:
            assert one.flags & (1 << 8), "the server must offer multi-conn"
            write(one, 0, "a")
            write(two, 1, "b")
            assert picture(two.read_all(), 3) == "abB"
            two.flush()
            write(one, 2, "c")
        cut(disk)
        assert surviving(folder, disk, 4) == "abBB"


def test_a_full_cache_destages_its_oldest_completed_writes(folder):
    with running(folder, DeviceContract(cache_size=2 * S)) as disk:
        with NbdClient(disk.socket) as client:
            for at, letter in enumerate("abcd"):
                write(client, at, letter)
            write(client, 4, "eeee")  # larger than the cache: all of it goes
            write(client, 0, "f")
            statistics = disk.statistics()
        cut(disk)
        assert surviving(folder, disk, 9) == "abcdeeeeB"
    timeline = read_timeline(folder / "log", verify_payloads=True)
    assert [(r.request, r.offset, r.length) for r in timeline.destaged] == [
        (0, 0, S),
        (1, S, S),
        (2, 2 * S, S),
        (3, 3 * S, S),
        (4, 4 * S, 4 * S),
    ]
    completed = timeline.requests.completed_ns
    causes = zip(timeline.destaged, (2, 3, 4, 4, 4), strict=True)
    assert all(r.at > completed[cause] for r, cause in causes)
    assert (statistics.volatile_writes, statistics.volatile_bytes) == (1, S)


# -- cuts ---------------------------------------------------------------------------------


def splitmix(seed, index):
    """Output `index` of SplitMix64, written down again from its paper."""
    mask = (1 << 64) - 1
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def expected_random(seed, request, first, count, unit):
    """Bytes that policy `random` keeps, as harness/capture/survive.h says."""
    start, end = first * S, (first + count) * S
    fate, where = splitmix(seed, 3 * request) % 3, splitmix(seed, 3 * request + 1)
    units = (end - 1) // unit - start // unit + 1
    if fate == 0 or (fate == 2 and units == 1 and where % 2):
        return None
    if fate == 1 or units == 1:
        return start, end - start
    skip = where % units
    kept = 1 + splitmix(seed, 3 * request + 2) % (units - skip)
    low = (start // unit + skip) * unit
    high = min(end, low + kept * unit)
    return max(low, start), high - max(low, start)


@pytest.mark.parametrize("unit", [1, 512, 4096])
@pytest.mark.parametrize("seed", [1, 2, 3, 2**64 - 1])
def test_random_survivors_are_those_that_the_seed_names(folder, unit, seed):
    writes = [(0, 20), (5, 3), (40, 1), (41, 1), (50, 40), (60, 30), (3, 16)]
    with running(folder, DeviceContract(atomic_unit=unit)) as disk:
        with NbdClient(disk.socket) as client:
            for letter, (first, count) in zip("abcdefg", writes, strict=True):
                write(client, first, letter * count)
        report = cut(disk, CutPolicy.RANDOM, seed)
        surviving(folder, disk)
    timeline = read_timeline(folder / "log", verify_payloads=True)
    kept = [(r.request, r.offset, r.length) for r in timeline.survived]
    expected = [
        (n, *kept_range)
        for n, (first, count) in enumerate(writes)
        if (kept_range := expected_random(seed, n, first, count, unit))
    ]
    assert kept == expected
    written = sum(count for _, count in writes) * S
    assert report.dropped_bytes == written - sum(length for *_, length in kept)
    assert report.survived_writes == len(kept)
    assert report.dropped_writes == len(writes) - len(kept)


@pytest.mark.parametrize("seed", range(6))
def test_prefix_survivors(folder, seed):
    with running(folder) as disk:
        with NbdClient(disk.socket) as client:
            for at, letter in enumerate("abcde"):
                write(client, at, letter)
        cut(disk, CutPolicy.PREFIX, seed)
        kept = splitmix(seed, 0) % 6
        assert surviving(folder, disk) == "abcde"[:kept] + "B" * (8 - kept)


def test_keep_leaves_everything_that_was_submitted(folder):
    with running(folder, DeviceContract(fua_latency_ns=LONG_NS)) as disk:
        with NbdClient(disk.socket) as client:
            write(client, 0, "aa")
            client.begin_write(S, sectors("b"), fua=True)
            while disk.statistics().fua_writes != 1:
                pass
            report = cut(disk, CutPolicy.KEEP)
        assert surviving(folder, disk, 3) == "abB"
    assert (report.dropped_writes, report.survived_writes) == (0, 2)
    assert read_timeline(folder / "log", verify_payloads=True).requests.completed_ns[1] == NEVER


def test_requests_after_the_cut_fail_on_old_connections_only(folder):
    with running(folder) as disk, NbdClient(disk.socket) as old:
        write(old, 0, "a")
        cut(disk, next_log=folder / "next")
        for attempt in (
            lambda: old.read(0, S),
            lambda: write(old, 0, "x"),
            lambda: write(old, 0, "x", fua=True),
            lambda: old.zero(0, S),
            lambda: old.trim(0, S),
            old.flush,
        ):
            with pytest.raises(NbdError) as caught:
                attempt()
            assert caught.value.errno == errno.EIO
        with NbdClient(disk.socket) as new:
            write(new, 1, "n", fua=True)
            assert picture(new.read_all(), 3) == "BnB"
    timeline = read_timeline(folder / "next", verify_payloads=True)
    assert timeline.complete
    assert timeline.cut is None
    assert timeline.requests.offset.tolist() == [S]
    assert read_timeline(folder / "log", verify_payloads=True).complete


def test_cut_after_cut_each_log_starts_on_the_medium_of_the_one_before(folder):
    with running(folder) as disk:
        base = (folder / "base").read_bytes()
        last = None
        for number in range(5):
            with NbdClient(disk.socket) as client:
                write(client, number, chr(ord("a") + number), fua=True)
                write(client, 5 + number, "xx")
                client.read_all()
            cut(disk, CutPolicy.RANDOM, number, folder / f"next{number}")
            log = folder / (f"next{number - 1}" if number else "log")
            timeline = read_timeline(log, verify_payloads=True)
            assert last is None or timeline.start_ns > 0
            assert last is None or timeline.requests.submitted_ns[0] > last
            last = timeline.cut.at
            (folder / "start").write_bytes(base)
            base = surviving_image(timeline, folder / "start").tobytes()
            with NbdClient(disk.socket) as client:
                assert client.read_all() == base
        assert disk.statistics().writes == 0


def test_unrecorded_after_the_cut(folder):
    with running(folder) as disk:
        cut(disk, next_log=None)
        with NbdClient(disk.socket) as client:
            write(client, 0, "ab", fua=True)
            write(client, 1, "c")
            assert picture(client.read_all(), 3) == "acB"
        disk.mark("nobody reads this")
        cut(disk, next_log=folder / "again")
        with NbdClient(disk.socket) as client:
            assert picture(client.read_all(), 3) == "abB"
    assert sorted(p.suffix for p in folder.iterdir() if p.is_file()) == [
        *("", ".data", ".data", ".log", ".log")
    ]


def test_an_ordered_disk_never_leaves_a_random_subset(folder):
    with running(folder, DeviceContract(ordered=True)) as disk, NbdClient(disk.socket) as client:
        write(client, 0, "a")
        with pytest.raises(HostError, match="policy prefix"):
            cut(disk, CutPolicy.RANDOM)
        assert picture(client.read_all(), 2) == "aB", "that was no cut"
        cut(disk, CutPolicy.PREFIX)


def test_a_cut_that_cannot_be_recorded_does_not_take_place(folder):
    with running(folder) as disk, NbdClient(disk.socket) as client:
        write(client, 0, "a")
        with pytest.raises(HostError, match="File exists"):
            cut(disk, next_log=folder / "log")
        assert picture(client.read_all(), 2) == "aB"
        assert disk.statistics().volatile_writes == 1


# -- a disk that stops ------------------------------------------------------------------------


def test_a_disk_that_stops_at_a_flush_stands_still_until_the_cut(folder):
    with running(folder) as disk, NbdClient(disk.socket) as one, NbdClient(disk.socket) as two:
        disk.stop_at_flush(2)
        assert not disk.wait_stopped(timeout_s=0.01)
        write(one, 0, "a")
        one.flush()
        assert not disk.wait_stopped(timeout_s=0.01)
        write(one, 1, "b")
        one.begin_flush()
        assert disk.wait_stopped(timeout_s=TIMEOUT_S)
        assert disk.wait_stopped(timeout_s=TIMEOUT_S), "it stays so"
        two.begin_write(2 * S, sectors("c"))
        assert disk.statistics().writes == 2, "it takes nothing"
        cut(disk)
        with pytest.raises(NbdError):
            two.flush()
        assert surviving(folder, disk, 4) == "aBBB"
    requests = read_timeline(folder / "log", verify_payloads=True).requests
    assert requests.kind.tolist() == [1, 4, 1, 4]
    assert (requests.completed_ns != NEVER).tolist() == [True, True, True, False]


def test_what_was_in_flight_when_the_flush_came_does_not_complete(folder):
    contract = DeviceContract(fua_latency_ns=2_000_000_000)  # the flush comes within it
    with running(folder, contract) as disk, NbdClient(disk.socket) as client:
        disk.stop_at_flush(1)
        client.begin_write(0, sectors("a"), fua=True)
        while disk.statistics().fua_writes != 1:
            pass
        client.begin_flush()
        assert disk.wait_stopped(timeout_s=TIMEOUT_S)
        time.sleep(2.2)  # longer than the write takes
        cut(disk)
    assert read_timeline(folder / "log", verify_payloads=True).requests.completed_ns.tolist() == [
        *(NEVER, NEVER)
    ]


def test_a_disk_cannot_stop_at_a_flush_that_was_submitted_already(folder):
    with running(folder) as disk, NbdClient(disk.socket) as client:
        client.flush()
        with pytest.raises(HostError, match="submitted already"):
            disk.stop_at_flush(1)
        disk.stop_at_flush(2)
        cut(disk)
        with NbdClient(disk.socket) as again:
            again.flush()
            again.flush()
            assert not disk.wait_stopped(timeout_s=0.01), "a cut ends it"


def test_a_disk_that_goes_on_taking_requests_completes_none(folder):
    with running(folder) as disk, NbdClient(disk.socket) as one, NbdClient(disk.socket) as two:
        disk.stop_after(3, taking=True)
        write(one, 0, "a")
        one.flush()
        write(two, 1, "b", fua=True)
        assert not disk.wait_stopped(timeout_s=0.01), "nothing waits at it"
        one.begin_write(2 * S, sectors("c"))
        assert disk.wait_stopped(timeout_s=TIMEOUT_S)
        two.begin_write(3 * S, sectors("d"), fua=True)
        two.begin_flush()
        while (disk.statistics().writes, disk.statistics().flushes) != (4, 2):
            pass  # which of the two is taken first is theirs
        cut(disk)
        assert surviving(folder, disk, 5) == "abBBB"
    timeline = read_timeline(folder / "log", verify_payloads=True)
    assert (timeline.requests.completed_ns != NEVER).tolist() == [True] * 3 + [False] * 3
    assert timeline.in_flight == InFlight(writes=2, zeroes=0, discards=0, flushes=1, survived=0)
    ((at, mark),) = timeline.marks
    assert mark == "stopped: requests are taken and do not complete"
    assert timeline.requests.completed_ns[2] < at < timeline.requests.submitted_ns[3]


def test_a_disk_stops_between_requests(folder):
    with running(folder) as disk, NbdClient(disk.socket) as client:
        disk.stop_after(2, taking=False)
        write(client, 0, "a")
        client.flush()
        assert disk.wait_stopped(timeout_s=TIMEOUT_S)
        client.begin_write(S, sectors("b"))
        assert disk.statistics().writes == 1, "it takes nothing"
        cut(disk)
        assert surviving(folder, disk, 3) == "aBB"
    timeline = read_timeline(folder / "log", verify_payloads=True)
    assert timeline.in_flight == InFlight(writes=0, zeroes=0, discards=0, flushes=0, survived=0)
    assert [mark for _, mark in timeline.marks] == ["stopped between requests"]


def test_a_disk_stops_at_an_instant_with_what_is_in_flight(folder):
    contract = DeviceContract(flush_latency_ns=LONG_NS, fua_latency_ns=LONG_NS)
    with running(folder, contract) as disk, NbdClient(disk.socket) as client:
        write(client, 0, "a")
        client.begin_flush()
        client.begin_write(S, sectors("b"), fua=True)
        while not (disk.statistics().flushes and disk.statistics().fua_writes):
            pass
        for taking in (True, False):
            disk.stop_after(0, taking=taking)
            assert disk.wait_stopped(timeout_s=TIMEOUT_S)
        cut(disk, CutPolicy.KEEP)
        assert surviving(folder, disk, 3) == "abB"
    timeline = read_timeline(folder / "log", verify_payloads=True)
    assert timeline.in_flight == InFlight(writes=1, zeroes=0, discards=0, flushes=1, survived=1)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_treats_what_is_in_flight_as_the_seed_says(folder, seed):
    """Of twelve writes in flight some are kept, some are torn and some are lost."""
    with running(folder) as disk, NbdClient(disk.socket) as client:
        disk.stop_after(0, taking=True)
        for number in range(12):
            client.begin_write(4 * number * S, sectors("abcdefghijkl"[number] * 4))
        while disk.statistics().writes != 12:
            pass
        report = cut(disk, CutPolicy.RANDOM, seed)
        surviving(folder, disk)
    timeline = read_timeline(folder / "log", verify_payloads=True)
    at = timeline.requests.offset // S
    kept = [(r.request, r.offset, r.length) for r in timeline.survived]
    assert kept == [
        (number, *kept_range)
        for number in range(12)
        if (kept_range := expected_random(seed, number, int(at[number]), 4, S))
    ]
    assert 0 < len(kept) < 12
    assert {length < 4 * S for _, _, length in kept} == {False, True}
    assert timeline.in_flight == InFlight(
        writes=12, zeroes=0, discards=0, flushes=0, survived=report.survived_writes
    )


@pytest.mark.parametrize("seed", range(6))
def test_prefix_goes_on_with_what_is_in_flight(folder, seed):
    with running(folder) as disk, NbdClient(disk.socket) as client:
        write(client, 0, "a")
        write(client, 1, "b")
        disk.stop_after(0, taking=True)
        for number, letter in enumerate("cde", 2):
            client.begin_write(number * S, sectors(letter))
            while disk.statistics().writes != number + 1:
                pass
        cut(disk, CutPolicy.PREFIX, seed)
        kept = splitmix(seed, 0) % 6
        assert surviving(folder, disk) == "abcde"[:kept] + "B" * (8 - kept)


def test_closing_a_stopped_disk(folder):
    with running(folder) as disk, NbdClient(disk.socket) as client:
        disk.stop_at_flush(1)
        client.begin_flush()
        assert disk.wait_stopped(timeout_s=TIMEOUT_S)
    timeline = read_timeline(folder / "log", verify_payloads=True)
    assert timeline.complete
    assert timeline.requests.completed_ns.tolist() == [NEVER]


# -- the base, the end, and trouble -----------------------------------------------------------


def test_the_base_is_never_modified(folder):
    (folder / "base").write_bytes(os.urandom(S * SECTORS))
    before = hashlib.sha256((folder / "base").read_bytes()).digest()
    (folder / "base").chmod(0o400)
    with running(folder) as disk:
        with NbdClient(disk.socket) as client:
            write(client, 0, "a" * SECTORS)
            client.flush()
        cut(disk, CutPolicy.KEEP)
        with NbdClient(disk.socket) as client:
            client.trim(0, S * SECTORS, fua=True)
    assert hashlib.sha256((folder / "base").read_bytes()).digest() == before


def test_a_snapshot_is_sparse_and_never_overwrites(folder):
    size = 64 << 20
    with (folder / "base").open("wb") as file:
        file.truncate(size)
    with running(folder) as disk:
        with NbdClient(disk.socket) as client:
            client.write(size // 2, b"a" * 4096, fua=True)
        disk.snapshot(folder / "snapshot")
        with pytest.raises(HostError, match="File exists"):
            disk.snapshot(folder / "base")
    status = (folder / "snapshot").stat()
    assert (status.st_size, status.st_blocks * S <= 64 << 10) == (size, True)


def test_a_closed_disk_leaves_exactly_its_log(folder):
    with running(folder) as disk:
        with NbdClient(disk.socket) as client:
            write(client, 0, "abc")
        pid = disk.pid
    disk.close()
    assert sorted(p.name for p in folder.iterdir()) == ["base", "log.data", "log.log"]
    assert (folder / "log.data").stat().st_size == 3 * S
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(HostError, match="closed"):
        disk.mark("late")
    assert read_timeline(folder / "log", verify_payloads=True).complete


def test_a_disk_with_a_client_that_stays_closes_all_the_same(folder):
    with running(folder) as disk:
        client = NbdClient(disk.socket)
        write(client, 0, "a")
    client.close()
    assert read_timeline(folder / "log", verify_payloads=True).complete


def test_a_killed_disk_is_a_host_error_and_its_log_is_readable(folder):
    with running(folder) as disk:
        with NbdClient(disk.socket) as client:
            write(client, 0, "a", fua=True)
            write(client, 1, "b")
        os.kill(disk.pid, signal.SIGKILL)
        with pytest.raises(HostError) as caught:
            disk.statistics()
    assert "killed by signal 9" in str(caught.value)
    assert "nbdkit --foreground" in str(caught.value)
    timeline = read_timeline(folder / "log", verify_payloads=True)
    assert not timeline.complete
    assert (timeline.requests.completed_ns != NEVER).tolist() == [True, True]
    assert picture(surviving_image(timeline, folder / "base").tobytes(), 3) == "aBB"
    assert sorted(p.name for p in folder.iterdir()) == ["base", "log.data", "log.log"]


def test_a_disk_whose_death_nobody_noticed_says_so_when_it_is_closed(folder):
    disk = CaptureDisk(CaptureConfig(folder / "base", folder / "log", sockets=folder))
    disk.start()
    os.kill(disk.pid, signal.SIGKILL)
    with pytest.raises(HostError, match="killed by signal 9"):
        disk.close()
    disk.close()
    assert sorted(p.name for p in folder.iterdir()) == ["base", "log.data", "log.log"]


def test_a_disk_that_does_not_answer_is_given_up(folder):
    with running(folder) as disk:
        stop(disk.pid)
        with pytest.raises(DeadlineExceeded, match="nbdkit --foreground"):
            disk.cut(CutPolicy.DROP, 0, None, timeout_s=0.2)
    assert sorted(p.name for p in folder.iterdir()) == ["base", "log.data", "log.log"]


WITH_SUPPORT = os.environ | {"PYTHONPATH": str(Path(nbd_client.__file__).parent)}
"""For a Python that is to import what tests share."""

CONTROLLER = """
import sys, time
from pathlib import Path
from powercut.disk.capture import CaptureDisk
from powercut.disk.capture_config import CaptureConfig
from nbd_client import NbdClient
folder = Path(sys.argv[1])
disk = CaptureDisk(CaptureConfig(folder / "base", folder / "log", sockets=folder))
disk.start()
client = NbdClient(disk.socket)
client.write(0, b"a" * 512)
disk.stop_at_flush(1)
client.begin_flush()
disk.wait_stopped(timeout_s=60)
print(disk.pid, disk.socket, flush=True)
time.sleep(600)
"""


def test_a_killed_controller_leaves_no_disk_and_no_socket(folder):
    """Even while the disk has stopped with a request in flight, and somebody else is connected."""
    controller = subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, str(folder)],
        env=WITH_SUPPORT,
        stdout=subprocess.PIPE,
        text=True,
    )
    with controller:
        pid, path = controller.stdout.readline().rstrip().split(maxsplit=1)
        stranger = NbdClient(Path(path))
        controller.kill()
    deadline = time.monotonic() + TIMEOUT_S
    while sorted(p.name for p in folder.iterdir()) != ["base", "log.data", "log.log"]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    while alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    stranger.close()
    assert read_timeline(folder / "log", verify_payloads=True).complete


CLIENT = """
import sys
from pathlib import Path
from nbd_client import NbdClient
client = NbdClient(Path(sys.argv[1]))
for _ in range(32):
    client.begin_write(0, bytes(4096))
print(flush=True)
while True:
    client.begin_flush()
    client.finish(client.begin_write(0, bytes(65536)))
"""


def test_root_s_is_no_user_of_the_host_and_its_files_are_root_s(folder):
    with running(folder) as disk:
        status = Path(f"/proc/{disk.pid}/status").read_text()
        told = dict(line.split(":\t", 1) for line in status.splitlines())
        disk.cut(CutPolicy.KEEP, 0, folder / "next", timeout_s=TIMEOUT_S)
        disk.snapshot(folder / "snapshot")
    me = os.geteuid()
    assert set(map(int, told["Uid"].split())) == {me or FIRST}
    assert me or int(told["CapEff"], 16) == 0
    made = [path for path in folder.iterdir() if path.name != "base"]
    assert len(made) > 2
    assert {path.stat().st_uid for path in made} == {me}


def test_a_killed_client_does_not_take_the_disk_with_it(folder):
    """As a hypervisor is killed: with replies and half a request under way."""
    with running(folder, DeviceContract(flush_latency_ns=100_000)) as disk:
        for _ in range(8):
            argv = [sys.executable, "-c", CLIENT, str(disk.socket)]
            with subprocess.Popen(argv, env=WITH_SUPPORT, stdout=subprocess.PIPE) as client:
                client.stdout.readline()
                client.kill()
            disk.statistics()
        with NbdClient(disk.socket) as client:
            write(client, 0, "a", fua=True)
        cut(disk)
        assert surviving(folder, disk, 1) == "a"


def test_half_a_request_does_not_take_the_disk_with_it(folder):
    with running(folder) as disk:
        for _ in range(8):
            client = NbdClient(disk.socket)
            for _ in range(16):
                client.begin_write(8192, bytes(4096))  # may be done after the client has gone
            half = struct.pack(">IHHQQI", 0x25609513, 0, 1, 99, 8192, 65536) + bytes(1000)
            client._socket.sendall(half)
            client._socket.close()
            disk.statistics()
        with NbdClient(disk.socket) as client:
            write(client, 0, "a")
            assert picture(client.read_all(), 1) == "a"


def alive(pid):
    """True unless the process is gone, or a zombie that its new parent has yet to reap."""
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def refused_writes(disk):
    """Fills the disk until it refuses; the number of writes of 64 KiB that it took."""
    with NbdClient(disk.socket) as client:
        taken = 0
        try:
            while taken < 4096:
                client.write(0, b"f" * 64 * 1024, fua=True)
                taken += 1
        except NbdError as error:
            assert error.errno in (errno.ENOSPC, errno.EIO, errno.EFBIG)  # noqa: PT017
        with pytest.raises(NbdError):
            client.write(0, b"s" * 512)  # small enough to fit, but it stays refused
        assert client.read(0, 1024) == b"f" * 1024
    return taken


def check_full(folder, disk, taken):
    assert 0 < taken < 4096
    cut(disk)
    timeline = read_timeline(folder / "log", verify_payloads=True)
    assert timeline.complete
    assert len(timeline.requests) == taken
    assert (timeline.requests.completed_ns != NEVER).all()
    assert timeline.marks[-1][1].startswith("refusing requests: E")


def test_the_first_read_that_the_host_fails_is_marked_in_each_log(folder):
    def read_past_the_end(disk):
        with NbdClient(disk.socket) as client:
            for _ in range(2):
                with pytest.raises(NbdError) as failed:
                    client.read(4 * S, S)
                assert failed.value.errno == errno.EIO
            assert client.read(0, S) == sectors("a")

    with running(folder) as disk:
        with NbdClient(disk.socket) as client:
            write(client, 0, "a", fua=True)
        os.truncate(folder / "base", S)
        read_past_the_end(disk)
        cut(disk, next_log=folder / "next")
        read_past_the_end(disk)
    for name in ("log", "next"):
        timeline = read_timeline(folder / name, verify_payloads=True)
        assert timeline.complete
        assert [mark for _, mark in timeline.marks] == ["failing reads: EIO"]


def test_a_log_that_may_not_grow_refuses_writes(folder):
    with running(folder) as disk:
        limit = 4 << 20
        resource.prlimit(disk.pid, resource.RLIMIT_FSIZE, (limit, limit))
        taken = refused_writes(disk)
        assert disk.statistics().writes == taken
        check_full(folder, disk, taken)


@pytest.fixture
def small_tmpfs(folder):
    host_needs.require("mounts")
    with small_disk(folder / "small", 8 << 20) as mountpoint:
        yield mountpoint


def test_a_full_host_refuses_writes(small_tmpfs):
    (small_tmpfs / "base").write_bytes(b"B" * S * SECTORS)
    with running(small_tmpfs) as disk:
        taken = refused_writes(disk)
        assert taken > 100, "it takes nearly all there is"
        check_full(small_tmpfs, disk, taken)


# -- the control channel ------------------------------------------------------------------------


def ask(path, *lines):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
        control.settimeout(TIMEOUT_S)
        control.connect(str(path))
        control.sendall("".join(f"{line}\n" for line in lines).encode())
        with control.makefile() as answers:
            return [answers.readline().strip() for _ in lines]


def test_the_control_socket_answers_strangers(folder):
    with running(folder, control=folder / "control") as disk:
        answers = ask(
            folder / "control",
            *("ping", "mark x", "nonsense", "cut", "cut drop", "cut some 1", "cut drop 1 relative"),
            *(
                "stop flush 0",
                "stop write 1",
                "stop after",
                "arm flush 1",
                "snapshot here",
                "mark",
                "cut drop -1",
                "stat",
            ),
        )
        assert answers[:2] == ['{"ok":true}'] * 2
        assert all(answer.startswith('{"ok":false,"error":"') for answer in answers[2:-1])
        assert '"volatile_writes":0' in answers[-1]
        assert ask(folder / "control", "x" * 9000)[0].startswith('{"ok":false')
        assert disk.statistics().writes == 0
    assert not (folder / "control").exists()


def test_it_is_a_disk(folder):
    with running(folder) as disk:
        port: Disk = disk
        assert port.size == S * SECTORS
        assert port.socket.is_socket()


def test_the_log_names_connections(folder):
    with running(folder) as disk:
        for _ in range(2):
            with NbdClient(disk.socket) as client:
                write(client, 0, "a")
    events = np.fromfile(folder / "log.log", dtype=EVENT, offset=256)
    submits = events[events["type"] == EventType.SUBMIT]
    assert submits["connection"].tolist() == [1, 2]
    assert (events["type"] == EventType.CONNECT).sum() == 2
    left = events["connection"][events["type"] == EventType.DISCONNECT]
    assert set(left.tolist()) <= {1, 2}, "the server may notice after the log is closed"


def test_latencies_change_while_it_runs_and_the_log_says_when(folder):
    with running(folder, DeviceContract(flush_latency_ns=LONG_NS, fua_latency_ns=LONG_NS)) as disk:
        disk.set_latency(3_000_000, 2_000_000)
        with NbdClient(disk.socket) as client:
            client.write(0, b"x" * S)
            client.flush()
            client.write(S, b"y" * S, fua=True)
    timeline = read_timeline(folder / "log", verify_payloads=True)
    took = timeline.requests.completed_ns - timeline.requests.submitted_ns
    assert took[1] >= 3_000_000
    assert took[2] >= 2_000_000
    assert [name for _, name in timeline.marks] == ["latency: flush 3000000 ns, FUA 2000000 ns"]


@pytest.mark.parametrize("latencies", [(-1, 0), (0, 60_000_000_001)])
def test_latencies_that_cannot_be_are_refused(folder, latencies):
    with running(folder) as disk, pytest.raises(HostError, match="latency: wants FLUSH FUA"):
        disk.set_latency(*latencies)


def test_errors_are_in_the_log_and_what_they_leave_is_what_it_says(folder):
    """A write that is lost, one that is kept, a flush that makes nothing durable, then another."""
    told = [
        {"on": "write", "nth": 2},
        {"on": "write", "nth": 2, "then": "kept"},
        {"on": "flush", "nth": 2, "times": 1},
    ]
    errors = tuple(DiskError.model_validate(one) for one in told)
    with running(folder, errors=errors) as disk:
        with NbdClient(disk.socket) as client:
            write(client, 0, "a")
            disk.inject()
            write(client, 1, "b")
            for place, letter in ((2, "c"), (3, "d")):
                with pytest.raises(NbdError) as failed:
                    write(client, place, letter)
                assert failed.value.errno == errno.EIO
            assert picture(client.read(0, 8 * S)) == "abBdBBBB"
            client.flush()
            write(client, 4, "e")
            with pytest.raises(NbdError):
                client.flush()
        disk.snapshot(folder / "medium")
        cut(disk)
    timeline = read_timeline(folder / "log", verify_payloads=True)
    assert picture((folder / "medium").read_bytes()) == "abBdBBBB"
    assert picture(surviving_image(timeline, folder / "base").tobytes()) == "abBdBBBB"
    assert timeline.requests.failed.tolist() == [False, False, True, True, False, False, True]
    assert [what for _, what in injected_errors(timeline)] == [
        "write, request 2: EIO", "write, request 3: EIO", "flush, request 6: EIO"
    ]  # fmt: skip
    assert host_failures(timeline) == ()
