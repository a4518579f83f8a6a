# SPDX-License-Identifier: Apache-2.0
"""The log of a recovery on record: read whole, or refused with the reason."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powercut.explore.recovery_timeline import Durability, timeline_of_record
from powercut.model.contract import DeviceContract
from powercut.model.errors import HostError
from powercut.model.timeline import RequestKind

DISK = 1 << 20
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8
SECTOR = 512


def entry(sector: int, sectors: int, flags: int, name: bytes = b"") -> bytes:
    head = struct.pack("<QQQQ", sector, sectors, flags, len(name)) + name
    data = b"" if flags & DISCARD else bytes([sector % 251]) * (sectors * SECTOR)
    return head.ljust(SECTOR, b"\0") + data


END = entry(0, 0, MARK, b"dm-log-writes-end")
WHOLE = (
    entry(8, 2, 0),
    entry(0, 0, FLUSH),
    entry(16, 8, DISCARD),
    entry(0, 0, MARK, b"after"),
    END,
)


def log(*entries: bytes, count: int | None = None, magic: int = 0x6A736677736872) -> bytes:
    counted = len(entries) if count is None else count
    return struct.pack("<QQQI", magic, 1, counted, SECTOR).ljust(SECTOR, b"\0") + b"".join(entries)


def read(raw: bytes, *, through: bool = False):
    return timeline_of_record(raw, disk_size=DISK, durability=Durability(DeviceContract(), through))


def test_each_entry_is_a_request_and_each_mark_an_instant():
    timeline = read(log(*WHOLE))
    rows = timeline.requests
    assert [RequestKind(one).name for one in rows.kind] == ["WRITE", "FLUSH", "DISCARD"]
    assert rows.offset.tolist() == [8 * SECTOR, 0, 16 * SECTOR]
    assert rows.length.tolist() == [2 * SECTOR, 0, 8 * SECTOR]
    assert rows.submitted_ns.tolist() == [10, 20, 30]
    at = int(rows.data_offset[0])
    assert timeline.data[at : at + 2 * SECTOR].tolist() == [8] * (2 * SECTOR)
    assert timeline.marks == ((40, "after"), (50, "dm-log-writes-end"))
    assert not rows.fua.any()
    assert read(log(*WHOLE), through=True).requests.fua.tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "cut off"),
        (log(*WHOLE, magic=1), "no log"),
        (log(*WHOLE[:-1]), "does not end"),
        (log(*WHOLE, count=3), "does not end"),
        (log(*WHOLE, count=6), "entry 5 is cut off"),
        (log(entry(8, 1, FUA), END), r"entry 0 is none \(flags 0x2\)"),
        (log(entry(0, 1, MARK), END), r"entry 0 is none \(flags 0x8\)"),
        (log(entry(DISK // SECTOR, 1, 0), END), "entry 0 is none"),
        (log(END, entry(8, 1, 0))[:-1], "entry 1 is none"),
        (log(entry(0, 0, 0), END), "entry 0 does nothing"),
    ],
)
def test_what_is_not_whole_is_refused(raw, why):
    with pytest.raises(HostError, match=f"not recorded as it should be: .*{why}"):
        read(raw)


@given(st.lists(st.sampled_from(WHOLE), max_size=6), st.data())
def test_damage_is_refused_or_harmless(entries, data):
    raw = bytearray(log(*entries, END))
    for _ in range(3):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        rows = read(bytes(raw)).requests
    except HostError:
        return
    writes = rows.kind == RequestKind.WRITE
    assert (rows.offset + rows.length <= DISK).all()
    assert (rows.data_offset + rows.length <= len(raw))[writes].all()
