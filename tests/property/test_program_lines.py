# SPDX-License-Identifier: Apache-2.0
"""The lines of a program: what was said comes back, and nothing else is believed."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powercut.channel.lines import LINE_MAX, header, pack, unpack
from powercut.model.binding import Binding
from powercut.model.errors import DamagedRecording
from powercut.model.observation import Observation
from powercut.model.operations import Packet
from powercut.workload.program import claims
from powercut.workload.program.lines import (
    OPERATION_MAX,
    LineKind,
    lines_of_check,
    lines_of_run,
)

MINE = Binding(digest=b"x" * 32)
OPERATIONS = st.integers(0, OPERATION_MAX)
CLAIMS = st.lists(st.tuples(st.sampled_from("?+-"), OPERATIONS), max_size=30)


@given(CLAIMS, st.lists(st.integers(1, 9), max_size=80))
def test_however_it_is_cut_into_packets_the_same_is_said(claims, sizes):
    data = "".join(f"{word} {operation}\n" for word, operation in claims).encode()
    packets, at = [], 0
    for number, size in enumerate(sizes):
        packets.append(Packet(number, data[at : at + size]))
        at += size
    packets.append(Packet(len(sizes), data[at:]))
    read = lines_of_run(packets)
    assert [(line.kind.value, line.first) for line in read.lines] == claims
    assert read.problems == ()
    ends = [sum(len(p.data) for p in packets[: n + 1]) for n in range(len(packets))]
    done = 0
    for (word, operation), line in zip(claims, read.lines, strict=True):
        done += len(f"{word} {operation}\n")
        assert line.at_ns == next(n for n, end in enumerate(ends) if end >= done)


@given(st.lists(st.integers(1, 3000), max_size=12))
def test_the_end_of_a_line_that_is_too_long_is_no_line(sizes):
    data = b"? 1\n" + b"x" * LINE_MAX + b"+ 1\n+ 1\n"
    packets, at = [], 0
    for size in (*sizes, len(data)):
        packets.append(Packet(0, data[at : at + size]))
        at += size
    read = lines_of_run(packets)
    assert [(line.kind.value, line.first) for line in read.lines] == [("?", 1), ("+", 1)]
    assert len(read.problems) == 1


def test_a_packet_that_begins_within_a_line_says_no_claim():
    read = lines_of_run([Packet(1, b"? 1\n" + b"x" * 5000), Packet(2, b"+ 1\n? 2\n")])
    assert [(line.kind.value, line.first) for line in read.lines] == [("?", 1), ("?", 2)]
    assert len(read.problems) == 1


@given(st.binary(max_size=200))
def test_garbage_is_a_problem_and_never_an_exception(data):
    read = lines_of_check(data)
    whole = data.count(b"\n") + (0 if data.endswith(b"\n") or not data else 1)
    assert bool(read.lines) + bool(read.problems) > 0 or whole == 0
    assert len(read.problems) <= 9


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.binary(max_size=50)), max_size=10))
def test_packets_come_back_from_their_file(packets):
    packets = tuple(Packet(*packet) for packet in packets)
    data = header(MINE) + b"".join(pack(packet) for packet in packets)
    assert unpack(data, MINE) == packets
    with pytest.raises(DamagedRecording, match="another recording"):
        unpack(data, Binding(digest=b"y" * 32))
    for cut in range(len(data)):
        with suppress(DamagedRecording):
            assert unpack(data[:cut], MINE) == packets[: len(unpack(data[:cut], MINE))]


@pytest.mark.parametrize(
    "line",
    [
        "+", "+ ", "+ x", "+ -1", "+ 1 2", "+ 1-2", "? 99999999999999999999", "= 2-1", "ready 1",
        "+1", "ok", "x y z", "= 1-", "+ ١",
    ],
)  # fmt: skip
def test_what_is_no_line(line):
    run = lines_of_run([Packet(0, f"{line}\n".encode())])
    check = lines_of_check(f"{line}\n".encode())
    assert (run.lines, check.lines) == ((), ())
    assert len(run.problems) == len(check.problems) == 1


def test_an_unfinished_line_was_not_said_by_run_and_is_a_problem_of_check():
    assert lines_of_run([Packet(0, b"+ 1\n+ 12")]).problems == ()
    assert [line.first for line in lines_of_run([Packet(0, b"+ 1\n+ 12")]).lines] == [1]
    assert len(lines_of_check(b"= 1\n= 12").problems) == 1


def test_the_words_of_run_and_check_are_not_each_others():
    assert lines_of_run([Packet(0, b"= 1\nbad x\n")]).lines == ()
    assert lines_of_check(b"+ 1\n? 1\n").lines == ()
    told = lines_of_check(b"x 7 half of it\nbad index\n! full\n").lines
    assert [(line.kind, line.first, line.text) for line in told] == [
        (LineKind.WRONG, 7, "half of it"),
        (LineKind.BAD, 0, "index"),
        (LineKind.TROUBLE, 0, "full"),
    ]


PLAIN = st.lists(st.sampled_from(["ready", *(f"{word} {n}" for word in "?+-" for n in range(5))]))
CHECKED = st.lists(st.sampled_from([*(f"= {n}" for n in range(9)), "= 3-5", "x 2 bad", "bad", "="]))


@given(PLAIN, st.lists(st.integers(0, 9), max_size=40), st.integers(0, 45), st.booleans())
def test_what_is_read_in_bulk_is_what_is_read_line_by_line(lines, sizes, cut_ns, ended):
    data = "".join(f"{line}\n" for line in lines).encode()[: None if ended else -1]
    packets, at = [], 0
    for number, size in enumerate(sizes):
        packets.append(Packet(number - number % 3, data[at : at + size]))
        at += size
    packets.append(Packet(len(sizes), data[at:]))
    found, slow = claims._in_bulk(packets, cut_ns), claims._line_by_line(packets, cut_ns, "")
    if found is not None:
        assert told(found) == told(slow)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 200))
def test_a_run_without_a_mistake_is_read_in_bulk(tried, acked, cut_ns):
    packets = [Packet(0, b"ready\n")]
    for number in range(tried):
        packets.append(Packet(2 * number, b"? %d\n" % (7 * number)))
        if number < acked:
            packets.append(Packet(2 * number + 3, b"+ %d\n" % (7 * number)))
    found = claims._in_bulk(packets, cut_ns)
    assert found is not None
    assert told(found) == told(claims._line_by_line(packets, cut_ns, ""))


@given(CHECKED, st.booleans())
def test_what_a_check_says_is_the_same_in_bulk(lines, ended):
    data = "".join(f"{line}\n" for line in lines).encode()[: None if ended else -1]
    plain = claims.sighting_of(Observation((), lines=data))
    with_words = claims.sighting_of(Observation((), lines=b"ready\n" + data))  # never in bulk
    assert plain.those_present(range(12)) == with_words.those_present(range(12))
    assert (plain.wrong, plain.bad, plain.incomplete) == (
        with_words.wrong, with_words.bad, with_words.incomplete
    )  # fmt: skip


def told(history):
    columns = (history.attempted, history.attempt_ns, history.acked, history.ack_ns)
    return (
        [column.tolist() for column in columns],
        history.failed,
        history.ready_ns,
        history.trouble,
    )
