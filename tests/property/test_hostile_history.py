# SPDX-License-Identifier: Apache-2.0
"""What a guest sends and what its reader reports: whatever the numbers, it is judged or refused."""

from __future__ import annotations

import json
import struct

import google_crc32c
import numpy as np
import pytest
from hostile import SLICES, fuzz, numbers, survives
from hypothesis import strategies as st

from powercut.channel.history_file import MAGIC as KIND
from powercut.channel.history_file import read_history
from powercut.channel.wire import EXTENT, HEADER, LATENCY, checksum
from powercut.checkers.wal import check_wal
from powercut.model.binding import Binding
from powercut.model.errors import DamagedRecording
from powercut.model.history import RECORDS_MAX
from powercut.model.observation import Extent, Observation
from powercut.model.verdict import LsnRange, merged_ranges
from powercut.store.trial_dir import read_observation
from powercut.store.trial_result import lost_lsns
from powercut.wal.layout import LayoutKind, SlotState, WalLayout

LAYOUTS = [
    WalLayout(LayoutKind.APPEND),
    WalLayout(LayoutKind.RAW, capacity=1 << 20),
    WalLayout(LayoutKind.SEGMENTS, segment=1 << 20),
]
U32, U64 = (1 << 32) - 1, (1 << 64) - 1


def head_of(digest):
    """How the history of the recording of that digest begins."""
    head = KIND + digest
    return head + struct.pack("<I", google_crc32c.value(head))


MAGIC = head_of(bytes(32))
"""How the history of no trial begins."""


def message(kind, stream, lsn, guest_ns, value, payload):
    fields = (0x31574350, kind & 0xFFFF, stream & 0xFFFF, len(payload))
    rest = tuple(number & U64 for number in (lsn, guest_ns, value))
    head = HEADER.pack(*fields, 0, *rest)
    return HEADER.pack(*fields, checksum(head, payload), *rest) + payload


def chunk(receipt_ns, data):
    head = struct.pack("<QI", receipt_ns & U64, len(data))
    crc = google_crc32c.extend(google_crc32c.value(head), data)
    return head + struct.pack("<I", crc) + data


extents = st.lists(
    st.builds(
        lambda slot, count, lsn, state, detail: EXTENT.pack(
            slot & U64, count & U64, lsn & U64, state & U32, detail & U32
        ),
        numbers, numbers, numbers, st.integers(0, 8), numbers,
    ),
    max_size=4,
).map(b"".join)  # fmt: skip
latencies = st.lists(numbers, min_size=499, max_size=499).map(
    lambda found: LATENCY.pack(*(number & U64 for number in found))
)
payloads = st.one_of(
    st.just(b""), st.binary(max_size=64), extents, st.text(max_size=40).map(str.encode), latencies
)
messages = st.builds(
    message, st.integers(0, 33), st.integers(0, 3), numbers, numbers, numbers, payloads
)
histories = st.lists(st.tuples(numbers, messages), max_size=8)


def judge(history, observation):
    """Everything that looks at every record."""
    for layout in LAYOUTS:
        lost_lsns(check_wal(history, observation, layout))


@pytest.mark.parametrize("examples", SLICES)
def test_any_history_is_judged_or_refused(tmp_path, examples):
    path = tmp_path / "history.bin"

    def check(listed):
        path.write_bytes(MAGIC + b"".join(chunk(*each) for each in listed) + chunk(1, b""))

        def read():
            recorded = read_history(path)
            judge(recorded.history, Observation(()))

        survives(read)

    fuzz(histories, check, examples)


json_numbers = st.one_of(
    numbers, numbers.map(lambda number: -number), st.floats(), st.text(max_size=3), st.none()
)
states = st.sampled_from([state.name.lower() for state in SlotState])
observations = st.lists(
    st.tuples(json_numbers, json_numbers, states, json_numbers, json_numbers), max_size=4
)


@pytest.mark.parametrize("examples", SLICES)
def test_any_observation_is_judged_or_refused(tmp_path, examples):
    path, history_file = tmp_path / "observation.json", tmp_path / "history.bin"
    acked = b"".join(message(kind, 0, 1000, 5, 0, b"") for kind in (3, 4))
    history_file.write_bytes(MAGIC + chunk(7, acked) + chunk(8, b""))
    history = read_history(history_file).history
    assert history.acked == 1000

    def check(listed):
        value = {
            "format": "powercut-observation/1", "recovered": True, "complete": True,
            "failure": "", "extents": listed,
        }  # fmt: skip
        path.write_text(json.dumps(value))
        survives(lambda: judge(history, read_observation(path, Binding())))

    fuzz(observations, check, examples)


@pytest.mark.parametrize("examples", SLICES)
def test_any_bytes_are_no_observation_or_one(tmp_path, examples):
    path = tmp_path / "observation.json"

    def check(data):
        path.write_bytes(data)
        survives(lambda: read_observation(path, Binding()))

    fuzz(st.one_of(st.binary(max_size=64), st.text(max_size=64).map(str.encode)), check, examples)


def test_a_nest_of_brackets_is_refused(tmp_path):
    path = tmp_path / "observation.json"
    path.write_text("[" * 200_000)
    with pytest.raises(DamagedRecording, match="brackets within brackets, too many to read"):
        read_observation(path, Binding())


def test_an_ack_of_more_records_than_memory_holds_is_refused(tmp_path):
    path = tmp_path / "history.bin"
    path.write_bytes(MAGIC + chunk(1, message(4, 0, RECORDS_MAX + 1, 1, 0, b"")) + chunk(2, b""))
    with pytest.raises(DamagedRecording, match=r"ACK of record 16777217; .* at most"):
        read_history(path)


def test_a_receipt_on_no_clock_is_refused(tmp_path):
    path = tmp_path / "history.bin"
    path.write_bytes(MAGIC + chunk(1 << 63, message(4, 0, 1, 1, 0, b"")) + chunk(2, b""))
    with pytest.raises(DamagedRecording, match="on no clock"):
        read_history(path)


@pytest.mark.parametrize(
    "strays",
    [[(3, 5)], [(1, 3), (8, 12)], [(5, 30)], [(40, 60), (2, 2), (2, 4)], [(9, 25), (20, 22)]],
)
def test_strays_are_told_apart_as_one_by_one(strays):
    """The fates after whole ranges are those of a record at a time."""
    from powercut.checkers.reading import reading_of

    layout = WalLayout(LayoutKind.APPEND)
    required = LsnRange(5, 20)
    there = Extent(6, 3, SlotState.INTACT, 7)  # records 7 to 9 in their slots
    found = [Extent(100 + first, last - first + 1, SlotState.MISDIRECTED, first)
             for first, last in strays]  # fmt: skip
    reading = reading_of(required, 100, Observation((there, *found)), layout)
    named = [lsn for first, last in strays for lsn in range(first, last + 1)]
    intact = {7, 8, 9}
    misdirected = {lsn for lsn in named if 5 <= lsn <= 20} - intact
    assert {int(lsn) for lsn in np.flatnonzero(reading.fate == 6) + 5} == misdirected
    stray = [lsn for lsn in named if lsn in intact or not 5 <= lsn <= 20]
    assert {lsn for span in reading.bystanders.misdirected for lsn in span} == set(stray)


def test_ranges_merge():
    spans = [LsnRange(5, 9), LsnRange(1, 2), LsnRange(3, 3), LsnRange(8, 12), LsnRange(20, 20)]
    assert merged_ranges(spans) == (LsnRange(1, 3), LsnRange(5, 12), LsnRange(20, 20))
