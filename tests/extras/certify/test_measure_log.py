# SPDX-License-Identifier: Apache-2.0
"""What the disk saw between two marks."""

from __future__ import annotations

import numpy as np
import pytest

from powercut.model.contract import DeviceContract, Honour
from powercut.model.errors import DamagedRecording
from powercut.model.timeline import RequestKind, Requests, Timeline
from powercut.model.units import NEVER
from powercut_extras.certify.measure.log import BEGIN, END, account

W, Z, D, F = RequestKind.WRITE, RequestKind.ZERO, RequestKind.DISCARD, RequestKind.FLUSH
MARKS = ((100, BEGIN), (200, END))


def timeline(rows, marks=MARKS, **contract) -> Timeline:
    """Rows are (kind, FUA, submitted, completed); each write is of 4096 bytes."""
    kind, fua, submitted, completed = zip(*rows, strict=True)
    n = len(rows)
    length = [0 if k is F else 4096 for k in kind]
    requests = Requests(
        kind=np.array(kind, np.uint8),
        fua=np.array(fua, bool),
        offset=np.zeros(n, np.int64),
        length=np.array(length, np.int64),
        submitted_ns=np.array(submitted, np.int64),
        completed_ns=np.array(completed, np.int64),
        data_offset=np.full(n, -1, np.int64),
        failed=np.zeros(n, bool),
    )
    none = np.empty(0, np.uint8)
    return Timeline(1 << 20, DeviceContract(**contract), requests, none, marks=marks)


ROWS = [
    (W, False, 50, 60),  # before
    (W, False, 110, 120),
    (F, False, 125, 130),
    (W, True, 135, 140),
    (D, False, 141, 142),
    (W, False, 150, 170),  # in flight when the flush is submitted
    (F, False, 160, 175),
    (Z, False, 180, 190),
    (W, False, 210, 220),  # after
    (F, False, 230, 240),
]


def test_requests_are_counted_between_the_marks():
    counts = account(timeline(ROWS)).counts
    assert (counts.writes, counts.fua_writes, counts.flushes) == (4, 1, 2)
    assert counts.written_bytes == 4 * 4096
    assert counts.kinds == {"write": 3, "fua": 1, "flush": 2, "discard": 1}


@pytest.mark.parametrize(
    ("contract", "not_durable"),
    [
        ({}, 2),
        ({"flush": Honour.IGNORED}, 3),
        ({"fua": Honour.IGNORED}, 2),  # a flush covered that write, too
        ({"flush": Honour.IGNORED, "fua": Honour.IGNORED}, 4),
        ({"volatile_cache": False}, 0),
    ],
)
def test_what_is_uncovered_and_what_is_not_durable(contract, not_durable):
    seen = account(timeline(ROWS, **contract))
    assert seen.uncovered == 2, "the write in flight at the last flush, and the zeroes after it"
    assert seen.not_durable == not_durable


def test_fua_that_is_ignored_still_waits_for_a_flush():
    rows = [(W, True, 110, 120), (F, False, 130, 140), (W, True, 150, 160)]
    seen = account(timeline(rows, fua=Honour.IGNORED))
    assert (seen.uncovered, seen.not_durable) == (0, 1)


def test_a_flush_that_ended_after_the_mark_covers_nothing():
    rows = [(W, False, 110, 120), (F, False, 130, 205), (F, False, 140, NEVER)]
    assert account(timeline(rows)).uncovered == 1


@pytest.mark.parametrize("marks", [(), MARKS[:1], (*MARKS, (150, END))])
def test_a_log_without_its_marks_is_refused(marks):
    with pytest.raises(DamagedRecording, match="marks 'measured commits"):
        account(timeline(ROWS, marks=marks))
