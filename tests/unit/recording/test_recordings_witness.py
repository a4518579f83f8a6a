# SPDX-License-Identifier: Apache-2.0
"""Witnesses of losses whose cause is known, on raw logs: exact writes, exact bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from handmade import Handmade
from hypothesis import given, settings
from hypothesis import strategies as st
from recordings_by_hand import RECORD, SIZE, record, three_records

from powercut.crash.applied import Kept
from powercut.crash.legality import why_illegal
from powercut.crash.states import CrashState, Move, StateSpace
from powercut.explore.clock import Clock
from powercut.explore.request import Budget
from powercut.explore.state_judge import Judgement, StateJudge
from powercut.model.contract import DeviceContract, Honour
from powercut.model.errors import DamagedRecording, UsageError
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.paths import WAL_BINARY
from powercut.recording import state_ref
from powercut.report.terminal.witness import time_line
from powercut.store.witness import read_witness, write_witness
from powercut.witness.minimize import minimize
from powercut.witness.search import Drop, SearchLimit, items_of, state_of

ACKS = [(1, 50), (2, 150), (3, 250)]


@pytest.fixture(autouse=True)
def _reader() -> None:
    if not WAL_BINARY.exists():
        pytest.skip(f"{WAL_BINARY} is not built: ./powercut builds it")


def test_the_one_write_that_carries_the_record(make_recording) -> None:
    recording = make_recording(three_records().timeline(), ACKS)
    witness = minimize(recording, "durable@500", lsn=2)
    (lost,) = witness.dropped
    assert (lost.request, lost.kind, lost.dropped) == (1, "write", ((512, 1024),))
    assert [part.what for part in lost.parts] == ["record 2"]
    assert lost.why == "no flush had been sent after it completed"
    assert witness.lost == (LsnRange(2, 2),)
    assert witness.kinds == (FindingKind.UNSERIALIZABLE,)
    assert (witness.dropped_before, witness.volatile, witness.minimal) == (4, 4, True)
    assert state_ref.load(recording.directory, witness.state).survivors == (0, 2, 3)
    assert "Record 2 is lost if 1 write (512 bytes: record 2) is lost" in witness.cause
    assert "It had been acknowledged 0.000 ms before" in witness.cause


def test_the_sector_of_a_long_write_that_matters(make_recording) -> None:
    made = Handmade(disk_size=SIZE, contract=DeviceContract(flush=Honour.IGNORED))
    made.write(0, b"".join(record(lsn) for lsn in (1, 2, 3)), at=10, done=15)
    made.flush(at=20, done=25)
    recording = make_recording(made.timeline(cut_at=1000), ACKS)
    witness = minimize(recording, lsn=2)
    assert witness.start == "cut"
    (lost,) = witness.dropped
    assert (lost.offset, lost.length, lost.dropped) == (0, 1536, ((512, 1024),))
    assert lost.why == "the disk ignored the 1 flush after it"
    state = state_ref.load(recording.directory, witness.state)
    assert state.torn == (Kept(0, 0, 512), Kept(0, 1024, 1536))
    assert why_illegal(recording.space, state) == []


def test_without_a_record_any_of_them_is_told(make_recording) -> None:
    recording = make_recording(three_records().timeline(), ACKS)
    witness = minimize(recording, "durable@500")
    assert len(witness.dropped) == 1
    assert len(witness.lost) == 1
    again = minimize(recording, "durable@500")
    assert again == witness


def test_writes_out_of_order(make_recording) -> None:
    made = Handmade(disk_size=SIZE)
    made.zero(0, RECORD, at=5, done=20)
    made.write(0, record(1), at=10, done=15)
    made.write(4096, record(2), at=16, done=17)
    made.flush(at=30, done=40)
    recording = make_recording(made.timeline(), [(1, 50)])
    name = state_ref.save(recording.directory, CrashState(60, (), (), (Move(0, 1),), "test"))
    witness = minimize(recording, name)
    assert (witness.dropped, witness.out_of_order) == ((), 1)
    assert witness.cause == "record 1 is lost because writes reached the medium out of order."


def test_what_was_never_written_needs_nothing_dropped(make_recording) -> None:
    recording = make_recording(three_records().timeline(), [*ACKS, (4, 300)])
    witness = minimize(recording, "durable@500", lsn=4)
    assert witness.dropped == ()
    assert witness.cause.startswith("No write has to be lost")


def test_a_disk_that_keeps_order_loses_everything_after(make_recording) -> None:
    made = three_records()
    made.contract = DeviceContract(ordered=True)
    recording = make_recording(made.timeline(), ACKS)
    witness = minimize(recording, "durable@500", lsn=2)
    assert [write.request for write in witness.dropped] == [1, 2, 3]
    state = state_ref.load(recording.directory, witness.state)
    assert why_illegal(recording.space, state) == []


def test_where_a_search_begins_if_nobody_says(make_recording) -> None:
    recording = make_recording(three_records(flushed=1).timeline(), ACKS)
    witness = minimize(recording)
    assert (witness.start, witness.lost) == ("ack:2", (LsnRange(2, 2),))


def test_nothing_is_lost(make_recording) -> None:
    made = three_records()
    made.flush(at=410, done=420)
    recording = make_recording(made.timeline(cut_at=1000), [(3, 450)])
    with pytest.raises(UsageError, match="no loss is known in this recording: tried cut"):
        minimize(recording)
    with pytest.raises(UsageError, match="state durable@500 loses nothing"):
        minimize(recording, "durable@500")


def test_a_record_that_the_state_does_not_lose(make_recording) -> None:
    recording = make_recording(three_records(flushed=2).timeline(), ACKS)
    with pytest.raises(UsageError, match="does not lose 1") as caught:
        minimize(recording, "ack:3", lsn=1)
    assert caught.value.hint == "it loses 3"


def test_a_log_of_unknown_layout_is_not_judged(make_recording) -> None:
    recording = replace(make_recording(three_records().timeline(), ACKS), layout=None, plan=None)
    with pytest.raises(UsageError, match="the layout of the records in this log was not given"):
        minimize(recording, "durable@500")


def test_out_of_budget_is_said(make_recording) -> None:
    recording = make_recording(three_records().timeline(), ACKS)
    witness = minimize(recording, "durable@500", lsn=3, budget=Budget(states=2))
    assert not witness.minimal
    assert 3 in {lsn for span in witness.lost for lsn in range(span.first, span.last + 1)}


@pytest.mark.parametrize("starts", [0.1, 2.0, 5.0])
@pytest.mark.parametrize("each", [0.002, 0.3, 1.5])
@pytest.mark.parametrize("guest", [0.0, 3.0, 8.0])
def test_a_budget_of_time_holds_within_a_fifth(each, starts, guest) -> None:
    """The engine's start, all states, that of the witness, and its confirmation in a guest."""
    time = 1000.0
    clock = Clock(Budget(seconds=20), Budget(seconds=20), 1, now=lambda: time)
    limit = SearchLimit(Budget(seconds=20), clock, guest)
    time += starts
    clock.work()
    time += each
    tests = 1
    while limit.allows_one_more(tests):
        time += each
        tests += 1
    time += each + guest
    assert 16 <= clock.taken <= 24


def test_a_search_out_of_time_is_said(make_recording) -> None:
    recording = make_recording(three_records().timeline(), ACKS)
    witness = minimize(recording, "durable@500", lsn=3, budget=Budget(seconds=1e-6))
    assert not witness.minimal
    assert (witness.dropped_before, witness.tests) == (len(witness.dropped), 2)
    assert minimize(recording, "durable@500", lsn=3, budget=Budget(seconds=3600)).minimal


def test_what_could_not_be_judged_may_lose_the_record(make_recording, monkeypatch) -> None:
    """A reader that does not finish says nothing against a smaller witness."""
    judge = StateJudge.judge
    unknown = Finding(FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, "no answer in time")
    alone: list[int] = []

    def sometimes(self: StateJudge, state: CrashState) -> Judgement:
        found = judge(self, state)
        if state.policy != "witness" or found.lossy or alone:
            return found
        alone.append(1)
        return replace(found, findings=(unknown,))

    recording = make_recording(three_records().timeline(), ACKS)
    assert minimize(recording, "durable@500", lsn=2).minimal
    monkeypatch.setattr(StateJudge, "judge", sometimes)
    assert not minimize(recording, "durable@500", lsn=2).minimal
    assert alone


def test_it_is_kept_beside_the_recording(make_recording) -> None:
    recording = make_recording(three_records().timeline(), ACKS)
    assert read_witness(recording.directory.path) is None
    witness = minimize(recording, "durable@500")
    write_witness(recording.directory.path, witness)
    assert read_witness(recording.directory.path) == witness
    (recording.directory.path / "witness.json").write_text("{}")
    with pytest.raises(DamagedRecording, match=r"witness\.json"):
        read_witness(recording.directory.path)


def test_the_time_line(make_recording) -> None:
    made = Handmade(disk_size=SIZE, contract=DeviceContract(flush=Honour.IGNORED))
    made.write(0, record(1), at=1_000_000, done=1_500_000)
    made.flush(at=2_000_000, done=2_500_000)
    recording = make_recording(made.timeline(cut_at=4_000_000), [(1, 3_000_000)])
    witness = minimize(recording)
    lines = time_line(witness.events, witness.dropped, witness.start_ns)
    assert [line.rstrip() for line in lines] == [
        "          ms    w0  flush  ack   cut",
        "       1.000    ┌                       write 0: 512 bytes at 0 (record 1)",
        "       1.500    └                       write 0 completes",
        "       2.000          ┌                 a flush is sent",
        "       2.500          └                 the flush is reported done: the disk ignored it",
        "       3.000                ✓           record 1 is acknowledged",
        "       4.000                      ✗     the power is cut",
    ]


@st.composite
def spaces(draw):
    made = Handmade(disk_size=SIZE)
    for index in range(draw(st.integers(1, 6))):
        offset = 512 * draw(st.integers(0, 20))
        length = 512 * draw(st.integers(1, 6))
        at = 10 * index + 1
        done = draw(st.sampled_from([at + 3, at + 25, 2**63 - 1]))
        made.write(offset, bytes([index + 1]) * length, at=at, done=done)
    return StateSpace(made.timeline())


@settings(max_examples=150, deadline=None)
@given(spaces(), st.data())
def test_items_and_states_are_two_ways_to_say_the_same(space, data) -> None:
    """Of any loss, even one in the middle of writes, the state says the same again."""
    instant = 1000
    chosen = []
    for write in space.volatile(instant).tolist():
        begin, end = int(space.begin[write]), int(space.end[write])
        edges = data.draw(
            st.lists(st.sampled_from(range(begin, end + 512, 512)), max_size=4, unique=True)
        )
        edges.sort()
        pairs = list(zip(edges[::2], edges[1::2], strict=False))
        chosen += [Drop(write, low, high) for low, high in pairs if low < high]
    state = state_of(space, instant, chosen)
    assert why_illegal(space, state) == []
    assert items_of(space, state) == chosen
    medium = bytearray(SIZE)
    lost = {(d.write, at) for d in chosen for at in range(d.begin, d.end)}
    for write in space.volatile(instant).tolist():
        for at in range(int(space.begin[write]), int(space.end[write])):
            if (write, at) not in lost:
                medium[at] = write + 1
    image = bytearray(SIZE)
    for applied in space.image_writes(state):
        image[applied.offset : applied.offset + applied.length] = applied.data.tobytes()
    hidden = set(range(len(space.timeline.requests))) - set(space.volatile(instant).tolist())
    assert image == medium or hidden
