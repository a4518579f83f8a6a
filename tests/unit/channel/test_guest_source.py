# SPDX-License-Identifier: Apache-2.0
"""Lines of a guest whose agent stamps them: what is kept, and what a ping answers."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from powercut.channel.line_channel import GuestSource, LineChannel
from powercut.channel.lines import END_OF_LINES, pack, unpack
from powercut.channel.wire import Decoder, Message, MessageType, encode
from powercut.model.binding import Binding
from powercut.model.errors import DamagedRecording, HostError
from powercut.model.operations import Packet, Pressed

SOON_S = 60


class Guest:
    """Answers pings, the n-th at n by its clock, and says lines when it is told to."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.answered = threading.Event()
        self._clock = 0
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        decoder = Decoder()
        while data := self.ours.recv(4096):
            for ping in decoder.feed(data):
                assert ping.type is MessageType.PING
                self._clock += 1
                pong = Message(
                    MessageType.PONG,
                    lsn=ping.lsn,
                    guest_ns=self._clock,
                    value=ping.value,
                    payload=struct.pack("<QQ", 10 * self._clock, self._clock),
                )
                with suppress(BrokenPipeError):  # whoever asked has gone
                    self.ours.sendall(encode(pong))
                self.answered.set()

    def say(self, data: bytes, guest_ns: int) -> None:
        self.ours.sendall(encode(Message(MessageType.LINES, value=guest_ns, payload=data)))

    def end(self) -> None:
        self.ours.shutdown(socket.SHUT_RDWR)
        self._thread.join(SOON_S)
        self.ours.close()


@pytest.fixture
def guest() -> Iterator[Guest]:
    made = Guest()
    yield made
    made.theirs.close()


def test_lines_and_pings_are_kept_with_both_clocks(guest, tmp_path):
    with LineChannel(GuestSource(guest.theirs), tmp_path / "lines", Binding()) as lines:
        assert guest.answered.wait(SOON_S)
        guest.say(b"ready\n? 1\n", 100)
        guest.say(b"+ 1", 200)
        guest.say(b"\n", 300)
        assert lines.wait_acks(1, timeout_s=SOON_S)
        assert lines.catch_up(timeout_s=SOON_S)
        guest.say(END_OF_LINES, 0)
        guest.end()
        lines.drain(timeout_s=SOON_S)
        assert lines.said_end
        pressed = lines.pressed
    packets = unpack((tmp_path / "lines").read_bytes(), Binding())
    said = [one for one in packets if one.sent_ns is None]
    assert [(one.guest_ns, one.data) for one in said] == [
        (100, b"ready\n? 1\n"), (200, b"+ 1"), (300, b"\n"),
    ]  # fmt: skip
    trips = [one for one in packets if one.sent_ns is not None]
    assert len(trips) >= 2
    assert [one.guest_ns for one in trips] == list(range(1, len(trips) + 1))
    assert all(one.sent_ns <= one.at_ns and not one.data for one in trips)
    assert pressed == Pressed(10 * len(trips), len(trips)), (
        "each says how far its kernel was pressed"
    )


def test_what_a_guest_had_said_is_there_when_it_has_been_caught_up_with(guest, tmp_path):
    """The answer comes behind the lines on the same port."""
    with closing(GuestSource(guest.theirs)) as source:
        taken: list[Packet] = []
        reading = threading.Thread(target=lambda: read(source, taken))
        reading.start()
        for number in range(500):
            guest.say(b"+ %d\n" % number, number + 1)
        assert source.catch_up(timeout_s=SOON_S)
        guest.end()
        reading.join(SOON_S)
        assert not source.catch_up(timeout_s=SOON_S), "nobody is there any more"
    assert sum(bool(one.data) for one in taken) == 500


@pytest.mark.parametrize("says_end", [False, True])
def test_the_end_of_a_guest_s_program_counts_once_all_is_heard(guest, tmp_path, says_end):
    """Lines come on another port than the word that it has ended."""
    with LineChannel(GuestSource(guest.theirs), tmp_path / "lines", Binding()) as lines:

        def watch() -> bool:
            for number in range(1, 4):
                guest.say(b"+ %d\n" % number, number)
            if says_end:
                guest.say(END_OF_LINES, 0)
            return True

        lines.watch = watch
        assert lines.wait_acks(3, timeout_s=SOON_S)
        assert not lines.wait_acks(4, timeout_s=SOON_S)
        guest.end()


def read(source: GuestSource, into: list[Packet]) -> None:
    while packet := source.next():
        into.append(packet)


def test_a_guest_that_answers_nothing_is_given_up(tmp_path):
    ours, theirs = socket.socketpair()
    with LineChannel(GuestSource(theirs), tmp_path / "lines", Binding()) as lines:
        assert not lines.catch_up(timeout_s=0.01)
        ours.close()
        lines.drain(timeout_s=SOON_S)


@pytest.mark.parametrize("sent", [b"? 1\n+ 1\n" * 10, encode(Message(MessageType.DONE, lsn=1))])
def test_what_is_no_line_of_a_guest_is_told(sent, tmp_path):
    ours, theirs = socket.socketpair()
    with ours, LineChannel(GuestSource(theirs), tmp_path / "lines", Binding()) as lines:
        ours.sendall(sent)
        with pytest.raises(HostError, match="could not be kept"):
            lines.drain(timeout_s=SOON_S)


def test_a_file_holds_both_clocks_and_a_damaged_one_is_refused():
    packets = (
        Packet(7, b"? 1\n", guest_ns=3),
        Packet(8, b"", guest_ns=5, sent_ns=6),
        Packet(9, b"+ 1\n", stamped=True),
        Packet(11, b"", guest_ns=2**63),
    )
    head = b"PCLINES1" + Binding().digest
    assert unpack(head + b"".join(map(pack, packets)), Binding()) == packets
    for length in (1 << 30 | 4, 3 << 30 | 8):
        raw = (7).to_bytes(8, "little") + length.to_bytes(4, "little") + bytes(length & 15)
        with pytest.raises(DamagedRecording, match="of its clock"):
            unpack(head + raw, Binding())
