# SPDX-License-Identifier: Apache-2.0
"""A log of dm-log-writes that a stranger wrote, and what is said of it, is imported or refused."""

from __future__ import annotations

import shutil
import struct

import pytest
from hostile import SLICES, fuzz, numbers, survives
from hypothesis import strategies as st

from powercut.model.errors import DamagedRecording, UsageError
from powercut_extras.logs.imports import LogLayout, import_recording, open_import, report_import

SECTOR = 512
U64 = (1 << 64) - 1


def entry(sector, sectors, flags, length=0, name=b"", data=b""):
    head = struct.pack("<QQQQ", sector & U64, sectors & U64, flags & U64, length & U64) + name
    return head[:SECTOR].ljust(SECTOR, b"\0") + data


def log_of(path, entries, count=None):
    head = struct.pack("<QQQI", 0x6A736677736872, 1, count or len(entries), SECTOR)
    path.write_bytes(head.ljust(SECTOR, b"\0") + b"".join(entries))
    return path


def mark(text):
    return entry(0, 0, 8, len(text), text)


END = mark(b"dm-log-writes-end")
WRITE = entry(0, 1, 2, data=bytes(SECTOR))


@pytest.fixture
def base(tmp_path):
    path = tmp_path / "base"
    path.write_bytes(bytes(64 << 10))
    return path


def imported(tmp_path, log, base, **layout):
    usual = {"run_id": "0" * 32, "layout": "raw", "capacity": 8192}
    output = tmp_path / "out"
    try:
        trial = import_recording(log, base=base, output=output, layout=LogLayout(**usual | layout))
        report_import(trial)
        return open_import(trial)
    finally:
        shutil.rmtree(output, ignore_errors=True)


names = st.one_of(
    st.sampled_from([b"ack 1", b"attempt 2", b"ack 16777217", b"ack 9999999999999", b"fact a=b"]),
    st.binary(max_size=20),
)
entries = st.lists(
    st.one_of(
        st.just(WRITE),
        names.map(mark),
        st.builds(entry, numbers, numbers, st.integers(0, 40), numbers, names),
    ),
    max_size=6,
)


@pytest.mark.parametrize("examples", SLICES)
def test_any_log_is_imported_or_refused(tmp_path, base, examples):
    def check(case):
        listed, count = case
        log = log_of(tmp_path / "log", [*listed, END], count % (1 << 64))
        survives(lambda: imported(tmp_path, log, base))

    counts = st.one_of(st.just(0), numbers)
    fuzz(st.tuples(entries, counts), check, examples)


@pytest.mark.parametrize("examples", SLICES)
def test_any_layout_is_taken_or_refused(tmp_path, base, examples):
    log = log_of(tmp_path / "log", [WRITE, mark(b"ack 1"), END])
    layouts = st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(("record", "align", "capacity", "segment", "offset"), numbers),
            "layout": st.sampled_from(["raw", "append", "segments", "recycled", "x"]),
            "path": st.text(max_size=8),
            "run_id": st.one_of(st.just("f" * 32), st.text(max_size=33)),
        },
    )
    fuzz(layouts, lambda made: survives(lambda: imported(tmp_path, log, base, **made)), examples)


def test_a_mark_of_more_records_than_memory_holds_is_refused(tmp_path, base):
    log = log_of(tmp_path / "log", [WRITE, mark(b"ack 9999999999999"), END])
    with pytest.raises(DamagedRecording, match="16777216 records at most"):
        imported(tmp_path, log, base)


def test_a_log_longer_than_any_is_refused(tmp_path, base):
    log = log_of(tmp_path / "log", [WRITE, mark(b"ack 1"), END])
    with pytest.raises(UsageError, match="at the latest"):
        imported(tmp_path, log, base, capacity=1 << 70)
