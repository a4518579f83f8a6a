# SPDX-License-Identifier: Apache-2.0
"""One suite over every way on which a workload says what it does: messages by wire, and lines in
packets and on a guest's port."""

from __future__ import annotations

import errno
import socket
import threading
import time

import pytest

from powercut.channel import wire
from powercut.channel.guest_channel import GuestChannel
from powercut.channel.line_channel import LineChannel
from powercut.channel.line_sources import PacketSource
from powercut.channel.lines import END_OF_LINES, LINE_MAX, unpack
from powercut.channel.port import GuestFailed
from powercut.channel.wire import Decoder, Message, MessageType
from powercut.model.binding import Binding
from powercut.model.errors import DeadlineExceeded, HostError

SOON_S = 120  # long enough for a loaded host; nothing here takes that long unless it fails
NEVER_S = 3600  # a test that waits this long has failed: the outcome must be seen at once
BRIEF_S = 0.05  # for waits that must run out


class ByWire:
    """A workload that speaks the wire format, started as command 1."""

    def __init__(self, folder, kind):
        self.acks = GuestChannel.on_unix(folder / "ctl")
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(SOON_S)
        self.socket.connect(str(self.acks.address))
        self.acks._wait_connected(time.monotonic() + SOON_S, "start")
        self.acks.start("exec", "/bin/wal")
        decoder = Decoder()
        while not list(decoder.feed(self.socket.recv(1 << 16))):
            pass

    def claim(self, kind, number):
        return wire.encode(Message(kind, lsn=number))

    def ready(self):
        return wire.encode(Message(MessageType.READY))

    def attempt(self, number):
        return self.claim(MessageType.ATTEMPT, number)

    def ack(self, number):
        return self.claim(MessageType.ACK, number)

    def send(self, data):
        self.socket.sendall(data)

    def end(self):
        self.send(wire.encode(Message(MessageType.DONE, lsn=1)))

    def fail(self):
        self.send(wire.encode(Message(MessageType.ERROR, value=errno.EIO, payload=b"write")))
        self.send(wire.encode(Message(MessageType.DONE, lsn=1, value=1)))

    def heard(self):
        return self.acks.drain(timeout_s=SOON_S).ack_lsn.tolist()

    def close(self):
        self.socket.close()


class ByLines:
    """A program that says lines; its starter is asked how it ended."""

    def __init__(self, folder, kind):
        self.file = folder / "lines.bin"
        self.kind = kind
        self.ended = ""
        if kind == "packets":
            source = PacketSource()
            self.socket = socket.fromfd(source.theirs.fileno(), socket.AF_UNIX, source.theirs.type)
            source.theirs.close()
            self.acks = LineChannel(source, self.file, Binding())
        else:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(folder / "port"))
                listener.listen()
                self.acks = LineChannel.on_port(folder / "port", self.file, Binding())
                self.socket, _ = listener.accept()
        self.acks.watch = self.watch

    def watch(self):
        if self.ended == "failed":
            raise HostError("the program ended with status 1")
        return self.ended == "in order"

    def ready(self):
        return b"ready\n"

    def attempt(self, number):
        return b"? %d\n" % number

    def ack(self, number):
        return b"+ %d\n" % number

    def send(self, data):
        stamp = time.monotonic_ns().to_bytes(8, "little") if self.kind == "packets" else b""
        self.socket.sendall(stamp + data)

    def end(self):
        self.ended = "in order"

    def fail(self):
        self.ended = "failed"

    def heard(self):
        self.acks.drain(timeout_s=SOON_S)
        lines = b"".join(packet.data for packet in self.packets()).split(b"\n")
        return [int(line[2:]) for line in lines[:-1] if line.startswith(b"+ ")]

    def packets(self):
        return unpack(self.file.read_bytes(), Binding())

    def close(self):
        self.socket.close()


LINES = ["packets", "port"]


def opened(kind, tmp_path):
    how, _, what = kind.partition("-")
    workload = (ByWire if how == "wire" else ByLines)(tmp_path, what)
    with workload.acks:
        yield workload
        workload.close()
    assert not (tmp_path / "ctl").exists()
    assert not [one for one in threading.enumerate() if one.name in ("channel", "lines")]


@pytest.fixture(params=["wire", *(f"lines-{one}" for one in LINES)])
def workload(request, tmp_path):
    yield from opened(request.param, tmp_path)


@pytest.fixture(params=[f"lines-{one}" for one in LINES])
def program(request, tmp_path):
    yield from opened(request.param, tmp_path)


@pytest.fixture
def stream(tmp_path):
    yield from opened("lines-port", tmp_path)


# What holds for every one of them


def test_what_it_says_is_heard(workload):
    workload.send(workload.ready())
    workload.acks.wait_ready(timeout_s=SOON_S)
    for number in (1, 2, 3):
        workload.send(workload.attempt(number))
        workload.send(workload.ack(number))
    assert workload.acks.wait_acks(3, timeout_s=SOON_S)
    assert workload.acks.acked == 3
    workload.close()
    assert workload.heard() == [1, 2, 3]


def test_waits_run_out(workload):
    with pytest.raises(DeadlineExceeded, match=r"within 0\.05 s"):
        workload.acks.wait_ready(timeout_s=BRIEF_S)
    assert not workload.acks.wait_acks(1, timeout_s=BRIEF_S)
    with pytest.raises(DeadlineExceeded, match=r"open|no end"):
        workload.acks.drain(timeout_s=BRIEF_S)
    workload.send(workload.attempt(1) + workload.ack(1))  # and a later drain hears it all the same
    workload.close()
    assert workload.heard() == [1]


def test_a_claim_may_come_in_pieces(workload):
    said = workload.ready() + workload.attempt(12) + workload.ack(12)
    for at in range(len(said)):
        workload.send(said[at : at + 1])
    workload.acks.wait_ready(timeout_s=SOON_S)
    assert workload.acks.wait_acks(1, timeout_s=SOON_S)
    workload.close()
    assert workload.heard() == [12]


def test_an_end_in_order_ends_the_wait_at_once(workload):
    workload.send(workload.ready() + workload.attempt(1) + workload.ack(1))
    assert workload.acks.wait_acks(1, timeout_s=SOON_S)
    workload.end()
    assert not workload.acks.wait_acks(2, timeout_s=NEVER_S)
    assert workload.acks.wait_acks(1, timeout_s=NEVER_S)
    workload.acks.wait_ready(timeout_s=NEVER_S)


def test_an_end_before_it_was_ready(workload):
    workload.end()
    with pytest.raises(GuestFailed, match="ended before it was ready"):
        workload.acks.wait_ready(timeout_s=NEVER_S)


def test_a_failure_ends_the_wait_at_once_and_what_was_said_counts(workload):
    workload.send(workload.ready() + workload.attempt(7) + workload.ack(7))
    assert workload.acks.wait_acks(1, timeout_s=SOON_S)
    workload.fail()
    with pytest.raises(HostError, match=r"EIO|status 1"):
        workload.acks.wait_acks(100, timeout_s=NEVER_S)
    workload.close()
    assert workload.heard() == [7]


@pytest.mark.parametrize("wait", ["wait_ready", "wait_acks"])
def test_a_lost_connection_ends_every_wait_at_once(workload, wait):
    workload.send(workload.attempt(1))  # so that it is not one that nobody has heard of
    workload.close()
    waits = {
        "wait_ready": lambda: workload.acks.wait_ready(timeout_s=NEVER_S),
        "wait_acks": lambda: workload.acks.wait_acks(1, timeout_s=NEVER_S),
    }
    with pytest.raises(GuestFailed, match=r"connection .* ended"):
        waits[wait]()


def test_nothing_that_was_sent_before_the_cut_is_lost(workload):
    """More than a socket holds: the other end goes at once after its last word."""
    many = range(1, 40_001)

    def say():
        for first in range(1, len(many) + 1, 100):
            batch = range(first, first + 100)
            workload.send(b"".join(workload.attempt(one) + workload.ack(one) for one in batch))
        workload.close()

    thread = threading.Thread(target=say)
    thread.start()
    heard = workload.heard()
    thread.join()
    assert heard == list(many)


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_an_unfinished_last_claim_was_not_said(workload, kept):
    workload.send(workload.attempt(7) + workload.ack(7))
    workload.send(workload.ack(8)[:kept])
    workload.close()
    assert workload.heard() == [7]
    assert workload.acks.acked in (1, 7)


def test_hanging_up_keeps_what_has_come(workload):
    workload.send(workload.attempt(1) + workload.ack(1))
    assert workload.acks.wait_acks(1, timeout_s=SOON_S)
    workload.acks.close()
    workload.acks.close()
    assert workload.acks.acked == 1


# Lines


def test_acks_come_in_any_order_and_each_counts(program):
    for number in (9, 3, 2**63 - 1):
        program.send(b"? %d\n" % number)
    for number in (3, 2**63 - 1, 9):
        program.send(b"+ %d\n" % number)
    assert program.acks.wait_acks(3, timeout_s=SOON_S)
    program.close()
    assert program.heard() == [3, 2**63 - 1, 9]


@pytest.mark.parametrize(
    "garbage",
    [b"\n", b"\xff\xfe\n", b"+\n", b"+ -1\n", b"+ 1 2\n", b" + 1\n", b"+ 99999999999999999999\n",
     b"already\n", b"\0" * 8 + b"+ 1\n", b"x" * LINE_MAX + b"\n+ one\n", b"\r+ 1\n"],
)  # fmt: skip
def test_garbage_counts_for_nothing_and_is_kept(program, garbage):
    program.send(garbage)
    program.send(b"? 5\n+ 5\n")
    assert program.acks.wait_acks(1, timeout_s=SOON_S)
    program.close()
    program.acks.drain(timeout_s=SOON_S)
    assert program.acks.acked == 1
    assert b"".join(packet.data for packet in program.packets()) == garbage + b"? 5\n+ 5\n"


def test_a_line_without_end_fills_no_memory_and_is_no_ack(program):
    for _ in range(16):  # just below what ends a run (test_lines_without_end.py)
        program.send(b"+ 1" * 20_000)
    program.send(b"+ 7\n")  # its end: no ack of its own
    program.send(b"+ 8\n")
    assert program.acks.wait_acks(1, timeout_s=SOON_S)
    program.close()
    program.acks.drain(timeout_s=SOON_S)
    assert program.acks.acked == 1
    kept = b"".join(packet.data for packet in program.packets())
    assert kept == b"+ 1" * 16 * 20_000 + b"+ 7\n+ 8\n"
    assert max(len(packet.data) for packet in program.packets()) < 1 << 20


def test_acks_before_ready_show_that_it_has_begun(program):
    program.send(b"? 1\n+ 1\n")
    program.acks.wait_ready(timeout_s=SOON_S)


def test_lines_have_the_instant_of_their_receipt(stream):
    begun = time.monotonic_ns()
    stream.send(b"? 1\n+ ")
    stream.acks._wait(lambda: stream.acks._size > 0, time.monotonic() + SOON_S)
    between = time.monotonic_ns()
    stream.send(b"1\n? 2\n? 3")
    stream.close()
    stream.acks.drain(timeout_s=SOON_S)
    packets = stream.packets()
    assert b"".join(packet.data for packet in packets) == b"? 1\n+ 1\n? 2\n"
    assert begun <= packets[0].at_ns <= between <= packets[1].at_ns


def test_the_agent_says_that_the_lines_are_over(stream):
    stream.acks.watch = None
    stream.send(b"? 1\n+ 1\n" + END_OF_LINES)
    assert not stream.acks.wait_acks(2, timeout_s=NEVER_S)
    stream.close()
    stream.acks.drain(timeout_s=SOON_S)
    assert b"".join(packet.data for packet in stream.packets()) == b"? 1\n+ 1\n"


def test_no_ack_is_put_together_across_an_end(stream):
    stream.send(b"+ 1\0\n2\n")  # not the agent's: a line of its own says the end
    stream.send(b"? 3\n+ 3\n")
    assert stream.acks.wait_acks(1, timeout_s=SOON_S)
    stream.close()
    stream.acks.drain(timeout_s=SOON_S)
    assert stream.acks.acked == 1


def test_lines_that_cannot_be_kept_are_missed(program, monkeypatch):
    def full(packet):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(program.acks, "_keep", full)
    program.send(b"+ 1\n")
    with pytest.raises(HostError, match=r"could not be kept: .*No space left"):
        program.acks.wait_acks(1, timeout_s=NEVER_S)
    with pytest.raises(HostError, match="could not be kept"):
        program.acks.drain(timeout_s=SOON_S)


def test_a_path_that_no_socket_can_have(tmp_path):
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    with pytest.raises(HostError, match="longer than 107 bytes") as error:
        LineChannel.on_port(folder / "lines", tmp_path / "file", Binding())
    assert "TMPDIR" in error.value.hint
