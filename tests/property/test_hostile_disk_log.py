# SPDX-License-Identifier: Apache-2.0
"""A disk log that a stranger wrote, checksums and all, is read or refused."""

from __future__ import annotations

import google_crc32c
import numpy as np
import pytest
from handmade import history
from hostile import SLICES, fuzz, numbers, survives
from hypothesis import strategies as st
from surviving import surviving_image

from powercut.crash.evidence import gather
from powercut.crash.explore import Exploration, InstantKind, events
from powercut.crash.exposure import exposure
from powercut.crash.states import StateSpace
from powercut.disk.pclog import read_timeline
from powercut.disk.pclog_format import EVENT, HEADER, EventType
from powercut.model.errors import DamagedRecording
from powercut.wal.layout import LayoutKind, WalLayout
from powercut.wal.record import record_bytes

SIZE = 64 << 10
RUN_ID = bytes(range(16))
LAYOUT = WalLayout(LayoutKind.RAW, record=512, capacity=8192)
FIELDS = [name for name in EVENT.names if name != "crc"]


def log_of(tmp_path, rows, *, payloads, **header):
    """A log of `rows` with right checksums; `header` overrides."""
    head = np.zeros(1, dtype=HEADER)
    usual = {
        "magic": b"PCUTLOG1",
        "version": 1,
        "kind": 1,
        "header_size": 256,
        "disk_size": SIZE,
        "atomic_unit": 512,
        "contract": 7,
        "run_id": np.void(RUN_ID),
    }
    for key, value in (usual | header).items():
        head[key] = value
    raw = head.tobytes()[:-4]
    out = bytearray(raw + google_crc32c.value(raw).to_bytes(4, "little"))
    for row in rows:
        packed = row.tobytes()[:60]
        out += packed + google_crc32c.value(packed).to_bytes(4, "little")
    prefix = tmp_path / "disk"
    prefix.with_suffix(".log").write_bytes(out)
    prefix.with_suffix(".data").write_bytes(payloads)
    return prefix


def honest_rows():
    """Two records, a flush, a trim, a destage, a mark and a cut, as the disk logs them."""
    payloads = b"".join(
        record_bytes(
            RUN_ID, 0, lsn, prev_lsn=lsn - 1, generation=0, position=(lsn - 1) * 512,
            record_size=512,
        )
        for lsn in (1, 2)
    ) + b"mark"  # fmt: skip
    kinds = EventType
    listed = [
        {"type": kinds.SUBMIT, "op": 1, "request": 0, "offset": 0, "length": 512, "data": 0},
        {"type": kinds.COMPLETE, "op": 1, "request": 0},
        {"type": kinds.SUBMIT, "op": 4, "request": 1},
        {"type": kinds.COMPLETE, "op": 4, "request": 1},
        {"type": kinds.SUBMIT, "op": 1, "request": 2, "offset": 512, "length": 512, "data": 512},
        {"type": kinds.MARK, "data": 1024, "length": 4},
        {"type": kinds.COMPLETE, "op": 1, "request": 2},
        {"type": kinds.DESTAGE, "request": 2, "offset": 512, "length": 512},
        {"type": kinds.SUBMIT, "op": 3, "request": 3, "offset": 8192, "length": 4096},
        {"type": kinds.CUT, "op": 1, "request": 7},
        {"type": kinds.SURVIVE, "request": 3, "offset": 8192, "length": 512},
        {"type": kinds.END, "request": 4},
    ]  # fmt: skip
    rows = np.zeros(len(listed), dtype=EVENT)
    for number, fields in enumerate(listed):
        rows[number]["sequence"], rows[number]["time_ns"] = number, 1000 + number
        for key, value in fields.items():
            rows[number][key] = value
        if fields["type"] in (kinds.SUBMIT, kinds.MARK) and "data" in fields:
            payload = payloads[fields["data"] : fields["data"] + fields["length"]]
            rows[number]["data_crc"] = google_crc32c.value(payload)
    return rows, payloads


def read_all(prefix, base):
    """The log, and everything that is made of it."""
    timeline = read_timeline(prefix, verify_payloads=True)
    if timeline.disk_size == base.stat().st_size:
        surviving_image(timeline, base)
    evidence = gather(timeline, history([(1, 1004), (2, 1008)]), RUN_ID, LAYOUT, deep=True)
    exposure(evidence)
    space = StateSpace(timeline, evidence.claims, evidence.sets)
    for state in Exploration(space, events(space, list(InstantKind)), limit=4):
        space.image_writes(state)
    return timeline


damage = st.lists(
    st.tuples(st.integers(0, 11), st.sampled_from(FIELDS), numbers), min_size=1, max_size=3
)
header_damage = st.dictionaries(
    st.sampled_from(["disk_size", "atomic_unit", "contract", "cache_size", "start_monotonic_ns"]),
    numbers,
    max_size=2,
)


def damaged(rows, changes):
    rows = rows.copy()
    for number, field, value in changes:
        bits = 8 * rows[number][field].itemsize
        kept = value % (1 << bits)
        if rows.dtype[field].kind == "i" and kept >> (bits - 1):
            kept -= 1 << bits
        rows[number][field] = kept
    return rows


@pytest.fixture
def base(tmp_path):
    path = tmp_path / "base.img"
    path.write_bytes(bytes(SIZE))
    return path


def test_the_honest_log_is_read(tmp_path, base):
    rows, payloads = honest_rows()
    timeline = read_all(log_of(tmp_path, rows, payloads=payloads), base)
    assert timeline.complete
    assert len(timeline.requests) == 4


@pytest.mark.parametrize("examples", SLICES)
def test_any_numbers_are_read_or_refused(tmp_path, base, examples):
    rows, payloads = honest_rows()

    def check(change):
        events_, header = change
        header = {key: value % (1 << 8 * HEADER[key].itemsize) for key, value in header.items()}
        prefix = log_of(tmp_path, damaged(rows, events_), payloads=payloads, **header)
        survives(lambda: read_all(prefix, base))

    fuzz(st.tuples(damage, header_damage), check, examples)


FAR = 2**63 - 256


@pytest.mark.parametrize(
    ("number", "field", "value", "says"),
    [
        (0, "data", FAR, "has no payload"),  # start + length is below zero in 64 bits
        (5, "data", FAR, "has no payload"),
        (7, "offset", FAR, "names bytes that its write does not have"),
        (10, "offset", FAR, "names bytes that its write does not have"),
        (0, "time_ns", -(2**63), "no clock"),
        (11, "time_ns", 2**63 - 1, "no clock"),
    ],
)
def test_numbers_that_overflow_are_refused(tmp_path, number, field, value, says):
    rows, payloads = honest_rows()
    if field == "data":
        rows[number]["length"] = 512
    else:
        rows[number]["length"] = max(rows[number]["length"], 512)
    prefix = log_of(tmp_path, damaged(rows, [(number, field, value)]), payloads=payloads)
    with pytest.raises(DamagedRecording, match=says):
        read_timeline(prefix, verify_payloads=True)


@pytest.mark.parametrize("size", [2**63 - 1, 2**64 - 1, 2**60])
def test_a_disk_larger_than_any_is_refused(tmp_path, size):
    rows, payloads = honest_rows()
    with pytest.raises(DamagedRecording, match="disk of"):
        read_timeline(
            log_of(tmp_path, rows, payloads=payloads, disk_size=size), verify_payloads=True
        )


@pytest.mark.parametrize("unit", [0, 3, 2**31, 2**32 - 1])
def test_an_atomic_unit_that_no_disk_has_is_refused(tmp_path, unit):
    rows, payloads = honest_rows()
    with pytest.raises(DamagedRecording, match="atomic unit"):
        read_timeline(
            log_of(tmp_path, rows, payloads=payloads, atomic_unit=unit), verify_payloads=True
        )
