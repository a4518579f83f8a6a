# SPDX-License-Identifier: Apache-2.0
"""What is shown of a recording of which only a part can be read."""

from __future__ import annotations

import numpy as np
from handmade import Handmade

from powercut.model.operations import OperationHistory
from powercut.model.verdict import LsnRange
from powercut.recording.view import with_claims
from powercut.store.view import RecordingView
from powercut.workload.program.promises import ProgramPromises


def numbers(*values):
    return np.array(values, dtype=np.int64)


def timeline():
    made = Handmade(1 << 20)
    for start in (5, 20, 40):
        made.write(0, b"x" * 4096, at=start, done=start + 1)
        made.flush(at=start + 3, done=start + 4)
    return made.timeline()


def program():
    tried = OperationHistory(
        numbers(7, 3, 9), numbers(10, 18, 30), numbers(7, 3, 9), numbers(15, 24, 39)
    )
    return ProgramPromises(tried)  # fmt: skip


def test_of_nothing_that_can_be_read_nothing_is_shown():
    view = RecordingView(None, None, None, None, ("all of it is damaged",))
    assert (view.start_ns, view.end_ns) == (0, 0)
    for found in (*view.curve(), view.submitted(flushes=True), view.submitted(flushes=False)):
        assert found.tolist() == []


def test_requests_count_from_the_start_to_the_cut():
    view = RecordingView(None, timeline(), None, 23, ())
    assert (view.start_ns, view.end_ns) == (5, 23)
    assert view.submitted(flushes=False).tolist() == [5, 20]
    assert view.submitted(flushes=True).tolist() == [8, 23]


def test_operations_of_a_program_stand_on_the_curve_in_the_order_of_their_acks():
    view = with_claims(RecordingView(None, timeline(), None, 24, ()), program())
    instants, counts = view.curve()
    assert (instants.tolist(), counts.tolist()) == ([15, 24], [1, 2])
    assert view.on_curve((LsnRange(first=1, last=4),)) == (LsnRange(first=2, last=2),)
    assert view.on_curve((LsnRange(first=9, last=9),)) == ()  # its ack came after the cut
