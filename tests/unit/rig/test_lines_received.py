# SPDX-License-Identifier: Apache-2.0
"""A program's lines on their way out of the guest: each arrives, with the instant it was made."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import time

import pytest

from powercut.channel.lines import unpack
from powercut.model.binding import Binding
from powercut.model.errors import DeadlineExceeded, HostError
from powercut.recover.uml.boot import stamp_library
from powercut.rig.line_receiver import END_OF_LINES, CheckLines, LineReceiver

LINES = 3000
WRITER = """
import os, sys
for number in range(int(sys.argv[2])):
    os.write(int(sys.argv[1]), b"? %d\\n" % number)
"""


def test_the_guest_waits_for_a_controller_that_is_behind():
    """As it does not, UML keeps lines for later: they are late, or gone with the guest."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.setblocking(False)
    environment = {**os.environ, "LD_PRELOAD": str(stamp_library())}
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


def received(tmp_path, on_packet):
    receiver = LineReceiver(tmp_path / "lines.bin", Binding(), on_packet)
    for number in range(3):
        receiver.theirs.send((number + 1).to_bytes(8, "little") + b"+ %d\n" % number)
    return receiver


def test_every_packet_is_kept(tmp_path):
    seen = []
    received(tmp_path, seen.append).close()
    assert [packet.at_ns for packet in seen] == [1, 2, 3]
    assert unpack((tmp_path / "lines.bin").read_bytes(), Binding()) == tuple(seen)


def test_a_listener_that_fails_loses_no_line_in_silence(tmp_path):
    def fails(packet):
        raise ValueError(f"no room for {packet.data!r}")

    with pytest.raises(HostError, match="could not be kept: no room for"):
        received(tmp_path, fails).close()


def test_lines_of_a_guest_count_from_their_receipt_and_whole_ones_alone(tmp_path):
    ours, theirs = socket.socketpair()
    seen = []
    receiver = LineReceiver(tmp_path / "lines.bin", Binding(), seen.append, ours)
    begun = time.monotonic_ns()
    theirs.sendall(b"? 1\n+ ")
    while not seen:
        time.sleep(0.001)
    between = time.monotonic_ns()
    theirs.sendall(b"1\n" + END_OF_LINES + b"? 2\n? 3")  # the last one is never finished
    theirs.close()
    receiver.close()
    packets = unpack((tmp_path / "lines.bin").read_bytes(), Binding())
    assert list(packets) == seen
    assert b"".join(packet.data for packet in packets) == b"? 1\n+ 1\n? 2\n"
    assert begun <= packets[0].at_ns <= between <= packets[1].at_ns


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
