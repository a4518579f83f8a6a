# SPDX-License-Identifier: Apache-2.0
"""A program's cut, told: operations by name, what its check found, and for want of what."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from powercut.crash.states import CrashState, StateSpace
from powercut.explore.program_cut import story_of
from powercut.model.contract import CutPolicy, DeviceContract
from powercut.model.observation import Observation
from powercut.model.operations import OperationHistory, Packet
from powercut.model.timeline import DiskCut, RequestKind, Requests, Timeline
from powercut.model.units import Instant
from powercut.model.verdict import Difference, LsnRange, Verdict
from powercut.recording.disk_places import Places
from powercut.recording.view import with_claims
from powercut.report.difference import check_words, difference_lines, difference_sentence
from powercut.report.page.sequence import loss_svg
from powercut.report.page.telling import timeline_svg
from powercut.report.terminal.story import last_moments
from powercut.store.trial_result import FindingRecord
from powercut.store.view import RecordingView
from powercut.verdict.loss_story import program_story_of
from powercut.workload.port import StateClaims
from powercut.workload.program.claims import history_of
from powercut.workload.program.promises import ProgramPromises

MS = 1_000_000


def promises() -> ProgramPromises:
    """Operations 70, 5 and 12 are acknowledged at 4, 7 and 8 ms; 9 is tried."""
    lines = [(1, b"? 70\n"), (2, b"? 5\n"), (3, b"? 12\n"), (4, b"+ 70\n"), (6, b"? 9\n")]
    lines += [(7, b"+ 5\n"), (8, b"+ 12\n")]
    return ProgramPromises(history_of([Packet(at * MS, line) for at, line in lines]))


def timeline() -> Timeline:
    """A write and a flush for operation 70; a write that was done, never flushed; the cut."""
    kinds = [RequestKind.WRITE, RequestKind.FLUSH, RequestKind.WRITE]
    submitted = np.array([2, 3, 5], dtype=np.int64) * MS
    requests = Requests(
        kind=np.array(kinds, dtype=np.uint8),
        fua=np.zeros(3, dtype=np.bool_),
        offset=np.array([0, 0, 4096], dtype=np.int64),
        length=np.array([4096, 0, 512], dtype=np.int64),
        submitted_ns=submitted,
        completed_ns=submitted + MS // 2,
        data_offset=np.array([0, -1, 4096], dtype=np.int64),
        failed=np.zeros(3, dtype=np.bool_),
    )
    cut = DiskCut(Instant(9 * MS), CutPolicy.DROP, 1)
    data = np.zeros(4096 + 512, dtype=np.uint8)
    return Timeline(1 << 20, DeviceContract(), requests, data=data, cut=cut)


def seen(check: bytes) -> RecordingView:
    found = Observation((), lines=check)
    return with_claims(RecordingView(None, timeline(), found, 9 * MS, ()), promises())


def test_the_check_is_held_against_what_was_acknowledged():
    found = seen(b"= 70\n= 9\nx 12 the sum is 3\n= 1000-1002\n").difference
    assert found == Difference(
        acknowledged=3,
        found=5,
        missing=(LsnRange(5, 5),),
        changed=(LsnRange(12, 12),),
        unacknowledged=(LsnRange(9, 9),),
        never_tried=(LsnRange(1000, 1002),),
        words=("12: the sum is 3",),
    )
    assert difference_lines(found) == [
        ("acknowledged", "3 operations"),
        ("found", "5: 1 of these, and tried without an ack 1 (no. 9)"),
        ("missing", "1 (no. 5)"),
        ("there and wrong", "1 (no. 12)"),
        ("never tried", "3 (no. 1000-1002)"),
        ("the check says", "12: the sum is 3"),
    ]
    assert difference_sentence(found) == (
        "of 3 acknowledged operations the check misses 1 (no. 5); there and wrong: 1 (no. 12); "
        "there without an ack: 1 (no. 9); there and never tried: 3 (no. 1000-1002)"
    )


def test_a_check_that_did_not_look_at_everything_misses_nothing():
    failed = Observation((), complete=False, failure="status 1", lines=b"= 70\n")
    found = promises().difference(promises().claims_received(), failed)
    assert (found.missing, found.complete, found.found) == ((), False, 1)
    assert dict(difference_lines(found))["missing"].startswith("not known")
    assert "did not look at everything" in difference_sentence(found)


def test_a_loss_carries_the_whole_difference_into_its_record():
    lossy = promises().check(StateClaims(10 * MS, (), 4), Observation((), lines=b"= 70\nbad odd\n"))
    assert {one.verdict for one in lossy} == {Verdict.LOSSY}
    for one in lossy:
        record = FindingRecord.model_validate_json(FindingRecord.of(one).model_dump_json())
        assert record.finding() == one
        assert record.difference is not None
        assert (record.difference.found, record.difference.words) == (1, ("odd",))
    assert FindingRecord.model_validate({**old_record(), "difference": None}).difference is None
    assert FindingRecord.model_validate(old_record()).difference is None


def old_record() -> dict[str, str]:
    return {"kind": "lost", "verdict": "lossy", "message": "as an earlier powercut wrote it"}


def test_many_words_of_a_check_are_shortened():
    words = tuple(f"{n}: {'x' * 300}" for n in range(9))
    told = check_words(Difference(9, 0, words=words))
    assert len(told) == 5
    assert all(len(one) <= 200 for one in told)
    assert told[-1] == "and 5 more of its lines"


def test_the_last_moments_name_operations():
    told = [(moment.at // MS, moment.text) for moment in last_moments(seen(b""), shown=4)]
    assert told == [
        (5, "the disk takes a write of 512 bytes at 4,096; done after 500 µs"),
        (6, "the program tries operation 9"),
        (7, "the program acknowledges operation 5"),
        (8, "the program acknowledges operation 12"),
        (9, "THE CUT: the disk loses its volatile cache (policy drop)"),
    ]


def test_the_drawing_counts_operations_and_hatches_the_acks_of_those_lost():
    drawing = timeline_svg(seen(b"= 70\n"), [LsnRange(5, 5), LsnRange(12, 12)], "mine")
    label = ET.fromstring(drawing).attrib["aria-label"]
    assert label.startswith("mine: 3 operations acknowledged in 8 ms; ")
    assert "lost: 2 operations, no. 5-12" in drawing
    # Acks 2 and 3 of 3, which stand side by side although 5 and 12 do not.
    assert seen(b"").on_curve([LsnRange(5, 5), LsnRange(12, 12)]) == (LsnRange(2, 3),)
    assert drawing.count('class="lost"') == 1
    assert not re.search(r"LSN|record", drawing)


@pytest.mark.parametrize("survivors", [(), (2,)])
def test_the_story_names_each_operation_and_what_was_durable_before(survivors):
    history = promises().requirements
    assert isinstance(history, OperationHistory)
    space = StateSpace(timeline(), history)
    state = CrashState(9 * MS, survivors)
    lost = [LsnRange(5, 5), LsnRange(12, 12)]
    told = story_of(history, space, state, lost, Places("", [], unknown="my.log, bytes 0 to 512"))
    assert told[0] == "acknowledged and lost, with the time before the cut: 5 (2 ms), 12 (1 ms)"
    assert told[1] == (
        "before the last of these acknowledgements: the last write (my.log, bytes 0 to 512) "
        "2.5 ms earlier, the last flush 4.5 ms earlier"
    )
    missing = "missing writes by what they hold: my.log, bytes 0 to 512"
    nothing = (
        "no write that the disk was given is missing: what was acknowledged had not been sent to it"
    )
    # The flush was sent at 3 ms, before both acks.
    assert told[2].startswith("no flush reached the disk between the first of these")
    assert told[3] == (nothing if survivors else missing)


def test_how_one_operation_was_lost_is_drawn_by_what_the_disk_was_given():
    """5 was tried at 2 ms: a flush, then a write that no flush followed, then its ack."""
    story = program_story_of(timeline(), promises().requirements, [LsnRange(5, 5)])
    assert story is not None
    assert (story.lsn, story.unit, story.start_ns) == (5, "operation", 2 * MS)
    told = [(step.at_ns and step.at_ns // 1000, step.lane, step.text) for step in story.steps]
    assert told == [
        (2000, "workload", "the program announces operation 5"),
        (2000, "write", "the disk takes write 0: 4,096 bytes at 0"),
        (2500, "write", "write 0 is reported done"),
        (3000, "flush", "a flush reaches the disk"),
        (3500, "flush", "the flush is reported done"),
        (5000, "write", "the disk takes write 2: 512 bytes at 4,096"),
        (5500, "write", "write 2 is reported done"),
        (7000, "workload", "operation 5 is acknowledged as durable"),
        (9000, "power", "the power is cut, 2 ms after the ack"),
        (None, "workload", "after recovery operation 5 is gone, as the program's check says"),
    ]
    assert "how operation 5 was lost" in loss_svg(story)


def test_an_operation_without_a_write_or_a_flush_says_so():
    nothing = program_story_of(timeline(), late(b"? 3\n"), [LsnRange(3, 3)])
    assert nothing is not None
    assert nothing.steps[1].text == (
        "operation 3 is acknowledged as durable, although nothing was written to the disk since "
        "its announcement"
    )
    assert program_story_of(timeline(), late(b"? 3\n"), [LsnRange(4, 4)]) is None


def late(line: bytes) -> OperationHistory:
    return history_of([Packet(6 * MS, line), Packet(7 * MS, b"+ 3\n")])
