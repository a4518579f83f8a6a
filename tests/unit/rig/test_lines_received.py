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
from powercut.model.errors import HostError
from powercut.recover.uml.boot import stamp_library
from powercut.rig.program_guest import LineReceiver

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
