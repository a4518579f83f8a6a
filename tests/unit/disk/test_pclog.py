# SPDX-License-Identifier: Apache-2.0
"""The reader of disk logs: what it makes of good, truncated and damaged ones."""

import os
import shutil
from pathlib import Path

import google_crc32c
import numpy as np
import pytest
from nbd_client import NbdClient
from patience import AMPLE_S
from surviving import surviving_image

from powercut.disk.capture import CaptureDisk
from powercut.disk.capture_config import CaptureConfig
from powercut.disk.pclog import read_timeline
from powercut.disk.pclog_format import EVENT, EventFlag, EventType
from powercut.model.contract import CutPolicy
from powercut.model.errors import DamagedRecording, UsageError
from powercut.model.units import NEVER

SECTOR = 512
KIB = 1024


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A log closed by a cut, with events of known kinds: see `events`."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "base").write_bytes(b"B" * 64 * KIB)
    with CaptureDisk(CaptureConfig(folder / "base", folder / "log")) as disk:
        with NbdClient(disk.socket) as client:
            client.write(0, b"a" * SECTOR)  # events 1, 2
            client.write(SECTOR, b"b" * SECTOR, fua=True)  # 3, 4
            client.flush()  # 5, 6
            disk.mark("half time")  # 7
            client.write(2 * SECTOR, b"c" * 4096)  # 8, 9
            client.zero(0, SECTOR)  # 10, 11
            client.trim(8 * KIB, KIB)  # 12, 13
        disk.cut(CutPolicy.KEEP, 7, None, timeout_s=AMPLE_S)
    return folder


@pytest.fixture
def log(recorded, tmp_path):
    """A copy that a test may spoil: the prefix of its files."""
    for suffix in (".log", ".data"):
        shutil.copy(recorded / f"log{suffix}", tmp_path)
    return tmp_path / "log"


def events(prefix):
    return np.fromfile(prefix.with_suffix(".log"), dtype=EVENT, offset=256)


def store(prefix, rows, *, seal=True):
    """Writes events back, with right checksums if `seal`."""
    rows = rows.copy()
    if seal:
        for row in rows:
            row["crc"] = google_crc32c.value(row.tobytes()[:60])
    path = prefix.with_suffix(".log")
    path.write_bytes(path.read_bytes()[:256] + rows.tobytes())


def test_a_request_that_failed_has_not_completed(log):
    rows = events(log)
    rows["flags"][4] |= EventFlag.FAILED  # the completion of the write with FUA
    store(log, rows)
    requests = read_timeline(log, verify_payloads=True).requests
    assert requests.failed.tolist() == [False, True, False, False, False, False]
    assert (requests.completed_ns == NEVER).tolist() == requests.failed.tolist()


def index_of(prefix, kind, number=0):
    return int(np.flatnonzero(events(prefix)["type"] == kind)[number])


def test_a_closed_log(log, recorded):
    timeline = read_timeline(log, verify_payloads=True)
    requests = timeline.requests
    assert timeline.complete
    assert requests.kind.tolist() == [1, 1, 4, 1, 2, 3]
    assert requests.fua.tolist() == [False, True, False, False, False, False]
    assert requests.offset.tolist() == [0, 512, 0, 1024, 0, 8192]
    assert requests.length.tolist() == [512, 512, 0, 4096, 512, 1024]
    assert requests.data_offset.tolist() == [0, 512, -1, 1536, -1, -1]
    assert (requests.submitted_ns < requests.completed_ns).all()
    assert (requests.completed_ns[:-1] < requests.submitted_ns[1:]).all()
    assert timeline.payload(3).tobytes() == b"c" * 4096
    assert [name for _, name in timeline.marks] == ["half time"]
    assert requests.completed_ns[2] < timeline.marks[0][0] < requests.submitted_ns[3]
    assert [(r.request, r.offset, r.length) for r in timeline.survived] == [
        (3, 1024, 4096),
        (4, 0, 512),
        (5, 8192, 1024),
    ]
    assert timeline.cut is not None
    assert (timeline.cut.policy, timeline.cut.seed) == (CutPolicy.KEEP, 7)
    assert {r.at for r in timeline.survived} == {timeline.cut.at}
    image = surviving_image(timeline, recorded / "base").tobytes()
    assert image[:1024] == bytes(512) + b"b" * 512
    assert image[1024:] == b"c" * 4096 + b"B" * 3072 + bytes(1024) + b"B" * (64 * KIB - 9216)


def test_a_missing_end_is_reported_wherever_it_is_missing(log):
    whole = log.with_suffix(".log").read_bytes()
    rows = events(log)
    for size in range(256, len(whole)):
        log.with_suffix(".log").write_bytes(whole[:size])
        timeline = read_timeline(log, verify_payloads=True)
        there = rows[: (size - 256) // 64]
        assert not timeline.complete
        assert len(timeline.requests) == (there["type"] == EventType.SUBMIT).sum()
        finished = (timeline.requests.completed_ns != NEVER).sum()
        assert finished == (there["type"] == EventType.COMPLETE).sum()


def test_space_reserved_ahead_is_not_damage(log):
    rows = events(log)[:-1]
    padding = np.zeros(1000, dtype=EVENT)
    store(log, np.concatenate([rows, padding]), seal=False)
    timeline = read_timeline(log, verify_payloads=True)
    assert not timeline.complete
    assert len(timeline.requests) == 6


def test_an_event_that_was_half_written_is_the_end(log):
    whole = log.with_suffix(".log").read_bytes()
    cut = 256 + 64 * 8 + 30
    log.with_suffix(".log").write_bytes(whole[:cut] + bytes(5000))
    timeline = read_timeline(log, verify_payloads=True)
    assert not timeline.complete
    assert len(timeline.requests) == 3


def test_any_flipped_bit_before_the_end_is_damage(log):
    whole = log.with_suffix(".log").read_bytes()
    count = (len(whole) - 256) // 64
    for event in range(count - 1):
        spoiled = bytearray(whole)
        spoiled[256 + 64 * event + (event * 13) % 64] ^= 1 << (event % 8)
        log.with_suffix(".log").write_bytes(spoiled)
        with pytest.raises(DamagedRecording, match=rf"log\.log: event {event} is damaged"):
            read_timeline(log, verify_payloads=False)


def test_a_flipped_bit_in_the_header(log):
    whole = bytearray(log.with_suffix(".log").read_bytes())
    for byte, message in ((0, "not a disk log"), (8, "version"), (30, "checksum of the header")):
        spoiled = bytearray(whole)
        spoiled[byte] ^= 4
        log.with_suffix(".log").write_bytes(spoiled)
        with pytest.raises(DamagedRecording, match=message):
            read_timeline(log, verify_payloads=False)


def test_a_damaged_payload_is_found_when_asked_for(log):
    data = bytearray(log.with_suffix(".data").read_bytes())
    data[600] ^= 1
    log.with_suffix(".data").write_bytes(data)
    assert read_timeline(log, verify_payloads=False).complete
    event = index_of(log, EventType.SUBMIT, 1)
    with pytest.raises(DamagedRecording, match=f"event {event} has a damaged payload"):
        read_timeline(log, verify_payloads=True)


def test_a_missing_payload_ends_a_log_that_was_not_closed(log):
    store(log, events(log)[:-1])
    log.with_suffix(".data").write_bytes(log.with_suffix(".data").read_bytes()[:1000])
    timeline = read_timeline(log, verify_payloads=True)
    assert not timeline.complete
    assert len(timeline.requests) == 1
    assert timeline.cut is None


def test_a_missing_payload_is_damage_in_a_closed_log(log):
    log.with_suffix(".data").write_bytes(log.with_suffix(".data").read_bytes()[:1000])
    with pytest.raises(DamagedRecording, match=r"has no payload in log\.data"):
        read_timeline(log, verify_payloads=False)


def test_a_wrong_last_payload_ends_a_log_that_was_not_closed(log):
    store(log, events(log)[:9])
    data = bytearray(log.with_suffix(".data").read_bytes())
    last = int(events(log)["data"].max())
    data[last] ^= 1
    log.with_suffix(".data").write_bytes(data)
    timeline = read_timeline(log, verify_payloads=True)
    assert not timeline.complete
    assert len(timeline.requests) == 3


@pytest.mark.parametrize("suffix", [".log", ".data"])
def test_a_missing_file(log, suffix):
    log.with_suffix(suffix).unlink()
    with pytest.raises(DamagedRecording, match="No such file"):
        read_timeline(log, verify_payloads=False)


def swap_times(rows):
    rows["time_ns"][[4, 5]] = rows["time_ns"][[5, 4]]


def submit_twice(rows):
    rows["request"][index(rows, EventType.SUBMIT, 2)] = 1


def complete_twice(rows):
    rows["request"][index(rows, EventType.COMPLETE, 1)] = 0


def complete_the_future(rows):
    rows["request"][index(rows, EventType.COMPLETE, 0)] = 5
    rows["op"][index(rows, EventType.COMPLETE, 0)] = 3


def complete_another_kind(rows):
    rows["op"][index(rows, EventType.COMPLETE, 0)] = 4


def complete_nothing(rows):
    rows["request"][index(rows, EventType.COMPLETE, 0)] = 99


def beyond_the_disk(rows):
    rows["offset"][index(rows, EventType.SUBMIT, 0)] = 64 * KIB


def survive_outside(rows):
    rows["length"][index(rows, EventType.SURVIVE, 0)] = 8192


def survive_a_flush(rows):
    rows["request"][index(rows, EventType.SURVIVE, 0)] = 2


def unknown_type(rows):
    rows["type"][3] = 42


def unknown_policy(rows):
    rows["op"][index(rows, EventType.CUT, 0)] = 9


def write_after_the_cut(rows):
    rows["type"][index(rows, EventType.SURVIVE, 0)] = EventType.CONNECT


def survive_without_a_cut(rows):
    rows["type"][index(rows, EventType.CUT, 0)] = EventType.CONNECT


def wrong_count(rows):
    rows["request"][-1] = 5


def index(rows, kind, number):
    return int(np.flatnonzero(rows["type"] == kind)[number])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (swap_times, "event 5 is not later"),
        (submit_twice, "is out of order"),
        (complete_twice, "for the second time"),
        (complete_the_future, "before it was submitted"),
        (complete_another_kind, "another kind"),
        (complete_nothing, "not there"),
        (beyond_the_disk, "beyond the end"),
        (survive_outside, "bytes that its write does not have"),
        (survive_a_flush, "bytes that its write does not have"),
        (unknown_type, "event 3 is of an unknown type"),
        (unknown_policy, "unknown policy"),
        (write_after_the_cut, "does not belong where the power was cut"),
        (survive_without_a_cut, "does not belong where the power was cut"),
        (wrong_count, "another number of requests"),
    ],
)
def test_events_that_contradict_each_other(log, spoil, message):
    rows = events(log)
    spoil(rows)
    store(log, rows)
    with pytest.raises(DamagedRecording, match=message):
        read_timeline(log, verify_payloads=False)


def test_an_image_of_another_size_is_no_base(log, tmp_path):
    (tmp_path / "other").write_bytes(bytes(1000))
    with pytest.raises(DamagedRecording, match="1000 bytes"):
        surviving_image(read_timeline(log, verify_payloads=False), tmp_path / "other")


def test_a_line_break_in_a_name_is_no_second_command(tmp_path: Path) -> None:
    """`snapshot /results/a` and then whatever followed: here a power cut."""
    (tmp_path / "base").write_bytes(bytes(1 << 20))
    folder = tmp_path / "a\ncut"
    folder.mkdir()
    with CaptureDisk(CaptureConfig(tmp_path / "base", tmp_path / "log")) as disk:
        with pytest.raises(UsageError, match="a line break in a name"):
            disk.snapshot(folder / "image")
        disk.snapshot(tmp_path / os.fsdecode(b"b\xff"))
        assert disk.statistics().writes == 0
    assert (tmp_path / os.fsdecode(b"b\xff")).stat().st_size == 1 << 20
    assert not folder.is_file()
