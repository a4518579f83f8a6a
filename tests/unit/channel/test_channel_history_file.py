# SPDX-License-Identifier: Apache-2.0
"""The history file: what is cut off counts, what is damaged does not pass."""

from __future__ import annotations

import socket

import pytest
from patience import AMPLE_S

from powercut.channel import wire
from powercut.channel.guest_channel import GuestChannel
from powercut.channel.history_file import HEAD_BYTES, HistoryWriter, read_history
from powercut.channel.wire import Message, MessageType
from powercut.model.errors import DamagedRecording, HostError


def ack(lsn: int) -> bytes:
    return wire.encode(Message(MessageType.ACK, lsn=lsn))


@pytest.fixture
def written(tmp_path):
    """Three chunks: ack 1 at 10 ns; ack 2 begins at 20 ns and is whole at 30 ns; the end."""
    path = tmp_path / "history.bin"
    with HistoryWriter(path) as writer:
        writer.append(10, ack(1) + ack(2)[:17])
        writer.append(30, ack(2)[17:])
        writer.append(40, b"")
    return path


def test_a_message_is_received_when_its_last_byte_is(written):
    read = read_history(written)
    assert read.complete
    assert read.history.ack_lsn.tolist() == [1, 2]
    assert read.history.ack_ns.tolist() == [10, 30]


def test_every_truncation_is_readable_and_says_so(written):
    whole = written.read_bytes()
    first = HEAD_BYTES + 16 + 57
    second = first + 16 + 23
    for size in range(len(whole)):
        written.write_bytes(whole[:size])
        read = read_history(written)
        assert not read.complete
        acked = 2 if size >= second else 1 if size >= first else 0
        assert read.history.acked == acked, size


def test_every_flipped_bit_is_damage_or_a_truncation(written):
    whole = written.read_bytes()
    truncations = 0
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        written.write_bytes(damaged)
        try:
            read = read_history(written)
        except DamagedRecording:
            continue
        # Only a length that now points past the end looks like a truncation.
        assert not read.complete
        truncations += 1
    assert 0 < truncations <= 3 * 32


def test_bytes_after_the_end_are_damage(written):
    written.write_bytes(written.read_bytes() + b"x")
    with pytest.raises(DamagedRecording, match="continues for 1 bytes"):
        read_history(written)


def test_what_is_no_history_is_refused(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"something else entirely")
    with pytest.raises(DamagedRecording, match="not a history file"):
        read_history(path)
    with pytest.raises(DamagedRecording, match="cannot read"):
        read_history(tmp_path / "missing")


def test_an_existing_history_is_never_written_over(written, tmp_path):
    with pytest.raises(HostError, match="File exists"):
        HistoryWriter(written)
    with pytest.raises(HostError, match="File exists"):
        GuestChannel.on_unix(tmp_path / "ctl", history_file=written)
    assert not (tmp_path / "ctl").exists()


def test_a_socket_path_that_is_too_long_says_what_to_do(tmp_path):
    with pytest.raises(HostError, match="longer than 107 bytes") as caught:
        GuestChannel.on_unix(tmp_path / ("x" * 108))
    assert "shorter directory" in caught.value.hint


def test_a_taken_socket_path_is_left_alone(tmp_path):
    with GuestChannel.on_unix(tmp_path / "ctl"):
        with pytest.raises(HostError, match="Address already in use"):
            GuestChannel.on_unix(tmp_path / "ctl")
        assert (tmp_path / "ctl").exists()


def test_a_full_disk_is_told_and_not_survived_in_silence(tmp_path, monkeypatch):
    class Full(HistoryWriter):
        def __init__(self, path, digest):
            super().__init__(path, digest)
            self._file.close()
            self._file = open("/dev/full", "wb", buffering=0)  # noqa: PTH123, SIM115

    monkeypatch.setattr("powercut.channel.guest_channel.HistoryWriter", Full)
    with GuestChannel.on_unix(tmp_path / "ctl", history_file=tmp_path / "h") as channel:
        guest = socket.socket(socket.AF_UNIX)
        guest.connect(str(tmp_path / "ctl"))
        guest.sendall(ack(1))
        with pytest.raises(HostError, match="No space left on device"):
            channel.wait_acks(2, timeout_s=3600)
        guest.close()
        with pytest.raises(HostError, match="No space left on device"):
            channel.drain(timeout_s=AMPLE_S)
