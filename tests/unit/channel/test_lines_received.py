# SPDX-License-Identifier: Apache-2.0
"""A program's lines on their way out of the guest: each arrives, with the instant it was made."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import threading
import time

import pytest

from powercut.channel.check_lines import CheckLines
from powercut.channel.line_channel import LineChannel
from powercut.channel.line_sources import PacketSource
from powercut.channel.lines import END_OF_LINES, unpack
from powercut.channel.stamped_source import StampedSource
from powercut.model.binding import Binding
from powercut.model.errors import DeadlineExceeded, HostError
from powercut.recover.uml.boot import stamp_library
from powercut.sandbox.confined import preloading

LINES = 3000
SOON_S = 60
NEVER_S = 3600
WRITER = """
import os, sys
for number in range(int(sys.argv[2])):
    os.write(int(sys.argv[1]), b"? %d\\n" % number)
"""


def test_the_guest_waits_for_a_controller_that_is_behind():
    """As it does not, UML keeps lines for later: they are late, or gone with the guest."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.setblocking(False)
    environment = preloading([stamp_library()], os.environ)
    environment["POWERCUT_STAMP_FD"] = str(theirs.fileno())
    begun = time.monotonic_ns()
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(theirs.fileno()), str(LINES)],
        pass_fds=[theirs.fileno()], env=environment,
    )  # fmt: skip
    with ours, writer:
        while select.select([], [theirs], [], 0)[1]:  # until no more can be sent
            assert writer.poll() is None
            time.sleep(0.001)
        theirs.close()
        packets = list(iter(lambda: ours.recv(1 << 16), b""))
    assert writer.returncode == 0
    assert [raw[8:] for raw in packets] == [b"? %d\n" % number for number in range(LINES)]
    instants = [int.from_bytes(raw[:8], "little") for raw in packets]
    assert begun < instants[0]
    assert instants == sorted(instants)


def said(source):
    for number in range(3):
        source.theirs.send((number + 1).to_bytes(8, "little") + b"+ %d\n" % number)


def test_every_packet_is_kept_with_the_instant_at_which_it_was_written(tmp_path):
    source = PacketSource()
    with LineChannel(source, tmp_path / "lines.bin", Binding()) as lines:
        said(source)
        lines.drain(timeout_s=SOON_S)
        assert lines.acked == 3
    packets = unpack((tmp_path / "lines.bin").read_bytes(), Binding())
    assert [(one.at_ns, one.data) for one in packets] == [
        (1, b"+ 0\n"), (2, b"+ 1\n"), (3, b"+ 2\n"),
    ]  # fmt: skip


def send_stamped(source, line):
    source.theirs.send((1).to_bytes(8, "little") + line)


@pytest.mark.parametrize(
    ("source", "send"),
    [(PacketSource, send_stamped), (StampedSource, lambda source, line: source.theirs.send(line))],
)
def test_the_end_of_a_program_counts_once_all_is_heard_that_it_had_said(
    tmp_path, monkeypatch, source, send
):
    """It says all that it has to say, and ends, while nobody looks."""
    keep, ended, made = LineChannel._keep, threading.Event(), source()

    def late(self, packet):
        assert ended.wait(SOON_S)
        keep(self, packet)

    def watch():
        for number in range(1, 4):
            send(made, b"+ %d\n" % number)
        ended.set()
        return True

    monkeypatch.setattr(LineChannel, "_keep", late)
    with LineChannel(made, tmp_path / "lines.bin", Binding()) as lines:
        lines.watch = watch
        assert lines.wait_acks(3, timeout_s=SOON_S)
        assert not lines.wait_acks(4, timeout_s=NEVER_S)
        lines.drain(timeout_s=SOON_S)
    packets = unpack((tmp_path / "lines.bin").read_bytes(), Binding())
    assert [one.data for one in packets] == [b"+ 1\n", b"+ 2\n", b"+ 3\n"]


def test_a_source_that_was_hung_up_cannot_be_caught_up_with(tmp_path):
    source = PacketSource()
    assert not source.catch_up(timeout_s=0.01), "nobody receives"
    source.refuse_others()
    assert not source.catch_up(timeout_s=NEVER_S)
    source.close()


def test_a_receiver_that_fails_loses_no_line_in_silence(tmp_path, monkeypatch):
    def fails(self, packet):
        raise ValueError(f"no room for {packet.data!r}")

    monkeypatch.setattr(LineChannel, "_keep", fails)
    source = PacketSource()
    with LineChannel(source, tmp_path / "lines.bin", Binding()) as lines:
        said(source)
        with pytest.raises(HostError, match="could not be kept: no room for"):
            lines.drain(timeout_s=SOON_S)


def test_a_file_that_cannot_be_made_is_said_and_nothing_stays_open(tmp_path):
    source = PacketSource()
    with pytest.raises(HostError, match=r"cannot keep lines in .*: No such file"):
        LineChannel(source, tmp_path / "absent" / "lines.bin", Binding())
    assert source.theirs.fileno() == -1


def test_what_a_check_says_is_whole_or_nothing():
    for said, whole in ((b"= 1-20\n", True), (b"", True), (b"= 1-20\n", False)):
        ours, theirs = socket.socketpair()
        with CheckLines(ours) as lines:
            theirs.sendall(said + (END_OF_LINES if whole else b""))
            theirs.close()
            if whole:
                assert lines.wait_end(30) == said
            else:  # the guest died: nothing follows from what it has not said
                with pytest.raises(HostError, match="has no end"):
                    lines.wait_end(30)


def test_a_check_whose_end_does_not_come_is_late():
    ours, theirs = socket.socketpair()
    with theirs, CheckLines(ours) as lines, pytest.raises(DeadlineExceeded):
        lines.wait_end(0.01)


def test_programs_in_a_guest_are_told_apart_by_their_ends():
    ours, theirs = socket.socketpair()
    with theirs, CheckLines(ours) as lines:
        for said in (b"= 1\n", b"? 2\n+ 2\n", b"", b"= 1-2\n"):
            theirs.sendall(said[:2])
            theirs.sendall(said[2:] + END_OF_LINES)
            assert lines.wait_end(30) == said
