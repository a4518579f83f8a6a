# SPDX-License-Identifier: Apache-2.0
"""Lines that the host's kernel stamps: not too early, nor by a clock that was set."""

import itertools
import socket
import struct
import time
from types import SimpleNamespace

import pytest

from powercut.channel.line_channel import LineChannel
from powercut.channel.lines import pack, unpack
from powercut.channel.stamped_source import Distance, StampedSource
from powercut.model.binding import Binding
from powercut.model.operations import Packet

SO_TIMESTAMPNS = 35
SOON_S = 60.0
HOUR_NS = 3600 * 10**9


class SetClock:
    """CLOCK_REALTIME as it would be, had somebody set it by `by_ns`."""

    by_ns = 0

    def __call__(self):
        return time.time_ns() + self.by_ns


def test_a_line_has_the_instant_of_its_writing_however_late_it_is_received():
    distance = Distance()
    source = StampedSource(distance)
    for number in range(20):
        before = time.monotonic_ns()
        source.theirs.send(b"+ %d\n" % number)
        after = time.monotonic_ns()
        while time.monotonic_ns() <= after + distance.doubt_ns:
            pass  # what follows is later than any doubt
        packet = source.next()
        assert packet.stamped
        assert packet.data == b"+ %d\n" % number
        assert before <= packet.at_ns <= after + distance.doubt_ns
    source.close()


@pytest.mark.parametrize("by_ns", [HOUR_NS, -HOUR_NS, 10**9, -(10**9)])
def test_once_the_clock_was_set_the_receipt_counts(by_ns):
    clock = SetClock()
    source = StampedSource(Distance(clock))
    source.theirs.send(b"? 1\n")
    assert source.next().stamped
    clock.by_ns = by_ns
    for _ in range(3):
        source.theirs.send(b"+ 1\n")
        received = time.monotonic_ns()
        packet = source.next()
        assert not packet.stamped
        assert packet.at_ns >= received
        clock.by_ns = 0  # that it was set back makes it no better
    source.close()


def test_a_clock_that_was_set_by_a_nanosecond_more_than_is_open_does_not_hold():
    """Each reading leaves 10 ns open."""
    set_by = [0]
    ticks = itertools.cycle((0, 10))
    distance = Distance(lambda: 1000 + set_by[0], lambda: next(ticks))
    assert distance.bounds(1000) == (0, 10)
    for by_ns, holds, bounds in ((10, True, (0, 0)), (-1, False, (1, 0)), (10, False, (1, 0))):
        set_by[0] = by_ns
        assert (distance.holds(), distance.bounds(1000)) == (holds, bounds)


def test_a_stamp_that_lies_a_nanosecond_after_its_receipt_is_not_believed(monkeypatch):
    source = StampedSource(
        SimpleNamespace(holds=lambda: True, bounds=lambda real_ns: (real_ns, real_ns))
    )
    stamp = [(socket.SOL_SOCKET, SO_TIMESTAMPNS, struct.pack("@ll", 0, 500))]
    monkeypatch.setattr(source, "receive", lambda: (b"+ 1\n", stamp))
    for received, at, stamped in ((500, 500, True), (499, 499, False), (900, 500, True)):
        monkeypatch.setattr(time, "monotonic_ns", lambda received=received: received)
        assert source.next() == Packet(at, b"+ 1\n", stamped)
    source.close()


def test_a_stamp_from_after_its_receipt_is_not_believed():
    """A clock that was set back before anybody could see it."""
    clock = SetClock()
    clock.by_ns = -HOUR_NS  # so that the kernel's own stamps lie an hour ahead
    source = StampedSource(Distance(clock))
    source.theirs.send(b"+ 1\n")
    received = time.monotonic_ns()
    packet = source.next()
    assert not packet.stamped
    assert packet.at_ns >= received
    source.close()


def test_a_write_of_nothing_is_not_the_end(tmp_path):
    source = StampedSource()
    with LineChannel(source, tmp_path / "lines.bin", Binding()) as lines:
        for data in (b"? 1\n", b"", b"+ 1\n? 2\n+ ", b"2\n"):
            source.theirs.send(data)
        lines.drain(timeout_s=SOON_S)
        assert lines.acked == 2
    packets = unpack((tmp_path / "lines.bin").read_bytes(), Binding())
    assert [one.data for one in packets] == [b"? 1\n", b"+ 1\n? 2\n+ ", b"2\n"]
    assert all(one.stamped for one in packets)
    assert [one.at_ns for one in packets] == sorted(one.at_ns for one in packets)


def test_a_large_write_comes_whole():
    source = StampedSource()
    text = b"".join(b"+ %d\n" % number for number in range(12_000))
    assert source.theirs.send(text) == len(text)
    assert source.next().data == text
    source.close()


def test_a_file_says_which_packets_were_stamped_and_an_old_one_says_none():
    packets = (Packet(7, b"? 1\n", stamped=True), Packet(9, b"+ 1\n"))
    head = b"PCLINES1" + Binding().digest
    assert unpack(head + b"".join(map(pack, packets)), Binding()) == packets
    old = bytes.fromhex("070000000000000004000000") + b"? 1\n"
    assert unpack(head + old, Binding()) == (Packet(7, b"? 1\n"),)
