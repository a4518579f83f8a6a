# SPDX-License-Identifier: Apache-2.0
"""Lines from whoever connects: nobody, strangers, the one that counts, and one that is cut off."""

from __future__ import annotations

import contextlib
import socket

import pytest

from powercut.channel.lines import unpack
from powercut.model.binding import Binding
from powercut.model.errors import DeadlineExceeded
from powercut_extras.elsewhere.listening import heard_on, listen_tcp

SOON_S = 120  # long enough for a loaded host; nothing here takes that long unless it fails
BRIEF_S = 0.05  # for waits that must run out
TOKEN = "0123456789abcdef"


def connected(address):
    return socket.create_connection(address, timeout=SOON_S)


@pytest.fixture(params=["", TOKEN])
def listening(request, tmp_path):
    listener = listen_tcp("127.0.0.1", 0)
    address = listener.getsockname()
    with heard_on(listener, tmp_path / "lines.bin", Binding(), token=request.param) as acks:
        yield acks, address, f"{request.param}\n".encode() if request.param else b""


def test_nobody_connects(listening):
    acks, _, _ = listening
    with pytest.raises(DeadlineExceeded, match="has not connected"):
        acks.wait_ready(timeout_s=BRIEF_S)
    acks.drain(timeout_s=SOON_S)  # nobody will any more
    assert acks.acked == 0


def test_strangers_who_say_nothing_keep_nobody_out(listening):
    acks, address, greeting = listening
    silent = [connected(address) for _ in range(12)]
    connected(address).close()
    with connected(address) as ours:
        ours.sendall(greeting + b"? 1\n+ 1\n")
        assert acks.wait_acks(1, timeout_s=SOON_S)
    for one in silent:
        one.close()
    acks.drain(timeout_s=SOON_S)


def test_who_has_connected_and_spoken_before_the_end_is_heard(listening):
    acks, address, greeting = listening
    with connected(address) as ours:
        ours.sendall(greeting + b"? 1\n+ 1\n")
    acks.drain(timeout_s=SOON_S)
    assert acks.acked == 1


def test_a_machine_that_lost_its_power_never_hangs_up(listening):
    acks, address, greeting = listening
    with connected(address) as ours:
        ours.sendall(greeting + b"? 1\n+ 1\n")
        assert acks.wait_acks(1, timeout_s=SOON_S)
        with pytest.raises(DeadlineExceeded, match="no end"):
            acks.drain(timeout_s=BRIEF_S)
        acks.drain(timeout_s=SOON_S, quiet_s=BRIEF_S)
        assert acks.acked == 1


@pytest.mark.parametrize("wrong", [b"+ 1\n", TOKEN.encode(), b"0123456789abcdeX\n", b"\n" * 40])
def test_without_the_token_nobody_is_heard(tmp_path, wrong):
    listener = listen_tcp("127.0.0.1", 0)
    address = listener.getsockname()
    acks = heard_on(listener, tmp_path / "lines", Binding(), token=TOKEN)
    with acks, connected(address) as stranger, connected(address) as ours:
        stranger.sendall(wrong)
        if wrong != TOKEN.encode():  # that may still become the token
            with contextlib.suppress(ConnectionResetError):
                assert not stranger.recv(1)
        for piece in (TOKEN[:5], TOKEN[5:], "\n? 2\n", "+ 2\n"):
            ours.sendall(piece.encode())
        assert acks.wait_acks(1, timeout_s=SOON_S)
        ours.close()
        acks.drain(timeout_s=SOON_S)
    kept = unpack((tmp_path / "lines").read_bytes(), Binding())
    assert b"".join(packet.data for packet in kept) == b"? 2\n+ 2\n"
