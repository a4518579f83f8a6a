# SPDX-License-Identifier: Apache-2.0
"""Exports, replayed by an independent replayer, against images from the definition."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from powercut.model.contract import DeviceContract
from powercut.model.timeline import RequestKind, Requests, Timeline
from powercut.model.units import NEVER, Instant
from powercut_extras.logs.logs import Reading, read_log, to_timeline, write_log

SECTOR = 512
DISK = 5 * SECTOR
KINDS = {"write": 1, "zero": 2, "discard": 3, "flush": 4}


@st.composite
def timelines(draw):
    """Requests with free overlaps in time and space; every payload is unlike every other."""
    actions = draw(
        st.lists(
            st.tuples(
                st.sampled_from(
                    ["write", "write", "zero", "discard", "flush", "done", "done", "mark"]
                ),
                st.integers(0, 4),
                st.integers(1, 3),
                st.booleans(),
                st.integers(0, 9),
            ),
            max_size=50,
        )
    )
    actions += [("done", 0, 1, False, 0)] * 3 + [("flush", 0, 1, False, 0)]
    actions += [("done", 0, 1, False, 0)] * 50
    rows, flying, marks, data, now = [], [], [], bytearray(), 0
    for what, start, count, fua, pick in actions:
        now += 7
        if what == "mark":
            marks.append((Instant(now), f"mark {len(marks)}"))
        elif what == "done":
            if flying:
                row = flying.pop(pick % len(flying))
                if pick == 9:
                    row["failed"] = True
                else:
                    row["completed"] = now
        else:
            length = 0 if what == "flush" else min(count * SECTOR, DISK - start * SECTOR)
            row = {
                "kind": KINDS[what],
                "fua": fua and what != "flush",
                "offset": start * SECTOR if length else 0,
                "length": length,
                "submitted": now,
                "completed": NEVER,
                "data": len(data) if what == "write" else -1,
                "failed": False,
            }
            if what == "write":
                data += bytes([len(rows) % 200 + 1]) * length
            rows.append(row)
            flying.append(row)
    column = lambda name, kind: np.array([row[name] for row in rows], kind)  # noqa: E731
    return Timeline(
        disk_size=DISK,
        contract=DeviceContract(volatile_cache=draw(st.sampled_from([True, True, True, False]))),
        requests=Requests(
            kind=column("kind", np.uint8),
            fua=column("fua", np.bool_),
            offset=column("offset", np.int64),
            length=column("length", np.int64),
            submitted_ns=column("submitted", np.int64),
            completed_ns=column("completed", np.int64),
            data_offset=column("data", np.int64),
            failed=column("failed", np.bool_),
        ),
        data=np.frombuffer(bytes(data) or b"\0", np.uint8),
        marks=tuple(marks),
    )


def durable_image(timeline: Timeline, at: int, base: bytes) -> bytes:
    """The base plus what is durable right after `at`, the later completion on top."""
    r = timeline.requests
    flushed = -1
    for i in range(len(r)):
        if r.kind[i] == RequestKind.FLUSH and r.completed_ns[i] <= at:
            flushed = max(flushed, int(r.submitted_ns[i]))
    image = bytearray(base)
    for i in sorted(range(len(r)), key=lambda i: int(r.completed_ns[i])):
        done = int(r.completed_ns[i])
        if r.kind[i] == RequestKind.FLUSH or done > at:
            continue
        through = not timeline.contract.volatile_cache
        if not (r.fua[i] or through or done < flushed):
            continue
        start, length = int(r.offset[i]), int(r.length[i])
        write = r.kind[i] == RequestKind.WRITE
        image[start : start + length] = timeline.payload(i).tobytes() if write else bytes(length)
    return bytes(image)


def replay(log: bytes, base: bytes):
    """The image at each flush, and at each mark with its name.

    Straight from Documentation/admin-guide/device-mapper/log-writes.rst and the
    structures at the head of drivers/md/dm-log-writes.c; a discard reads as zeroes.
    """
    magic, version, count, size = struct.unpack_from("<QQQI", log)
    assert (magic, version) == (0x6A736677736872, 1)
    image, at, flushes, marks = bytearray(base), size, [], []
    for _ in range(count):
        sector, sectors, flags, length = struct.unpack_from("<QQQQ", log, at)
        name = log[at + 32 : at + 32 + length]
        at += size
        start, stop = sector * size, (sector + sectors) * size
        if flags & 4:
            image[start:stop] = bytes(stop - start)
        elif sectors:
            image[start:stop] = log[at : at + stop - start]
            at += stop - start
        if flags & 1:
            flushes.append(bytes(image))
        if flags & 8:
            marks.append((name.decode(), bytes(image)))
    assert at == len(log)
    return flushes, marks


@settings(max_examples=600, deadline=None)
@given(timelines())
def test_an_export_replays_to_what_was_durable_at_each_flush_and_mark(timeline):
    base = bytes(place // SECTOR | 0xE0 for place in range(DISK))
    r = timeline.requests
    ends = sorted(
        int(r.completed_ns[i])
        for i in range(len(r))
        if r.kind[i] == RequestKind.FLUSH and r.completed_ns[i] != NEVER
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        result = write_log(timeline, path)
        flushes, marks = replay(path.read_bytes(), base)
        log = read_log(path, disk_size=DISK)
        readings = [to_timeline(log, reading=reading) for reading in Reading]

    assert flushes == [durable_image(timeline, at, base) for at in ends]
    wanted = [(name, durable_image(timeline, at, base)) for at, name in timeline.marks]
    assert marks[:-1] == wanted
    assert marks[-1][0] == "dm-log-writes-end"
    assert (result.flushes, result.marks) == (len(flushes), len(marks))
    assert result.entries == len(log)

    # And what we read back says the same as what we wrote.
    assert log.complete
    for again in readings:
        assert [name for _, name in again.marks] == [*(n for n, _ in wanted), "dm-log-writes-end"]
        for (at, _), (_, image) in zip(again.marks, wanted, strict=False):
            assert durable_image(again, at, base) == image


@settings(max_examples=200, deadline=None)
@given(timelines())
def test_what_was_imported_exports_to_the_same_bytes(timeline):
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder) / "first", Path(folder) / "second"
        write_log(timeline, first)
        for reading in Reading:
            write_log(to_timeline(read_log(first, disk_size=DISK), reading=reading), second)
            assert second.read_bytes() == first.read_bytes()
            second.unlink()
