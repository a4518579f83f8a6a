# SPDX-License-Identifier: Apache-2.0
"""Programs that say or print without end: bounded memory, and no verdict from a part of it."""

from __future__ import annotations

import socket
import time
import tracemalloc
from pathlib import Path

import pytest
from hostile import bounded
from patience import AMPLE_S

from powercut.channel import lines
from powercut.channel.line_channel import LineChannel
from powercut.channel.line_sources import StreamSource
from powercut.channel.lines import LineCounter
from powercut.model.binding import Binding
from powercut.model.errors import DamagedRecording, HostError
from powercut.model.operations import Packet
from powercut.recover.native.folder import LINES_MAX, ended_check
from powercut.rig.folder_acks import FolderAcks
from powercut.sandbox.printed import TAIL_BYTES, tail
from powercut.workload.program import claims
from powercut.workload.program import lines as program_lines
from powercut.workload.program.claims import history_of
from powercut.workload.program.lines import lines_of_check, lines_of_run

PIECE = bytes(1 << 16)


def test_a_line_without_end_takes_bounded_time_and_memory():
    """Each piece was appended to all that came before: 256 MiB in pieces copied 512 GiB."""
    counter = LineCounter()
    begin = time.process_time()
    with bounded():
        counter.take(b"+ 1\n+ ")
        for _ in range(4096):
            counter.take(PIECE)
        counter.take(b"\n+ 2\n")
    assert (counter.acks, counter.too_much) == (2, "a line of more than 1 MiB")
    assert time.process_time() - begin < 8


def test_much_in_lines_that_end_is_not_too_much():
    counter = LineCounter()
    for _ in range(64):
        counter.take(b"x" * 4000 + b"\n+ 1\n" + b"~" * 60000)
        counter.take(b"~\n")
    assert (counter.acks, counter.too_much) == (64, "")


SAID = {
    "a line of more than 1 MiB": [PIECE] * 17,
    "more than 48 lines": [b"? 1\n" * 49],
    "lines in more than 48 writes": [b"+"] * 49,
}


@pytest.mark.parametrize("what", SAID)
def test_what_is_too_much_ends_the_run_and_is_named(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lines, "LINES_MAX", 48)
    """What comes then is heard and forgotten: a guest that cannot write stands still, uncut."""
    ours, theirs = socket.socketpair()
    file = tmp_path / "lines.bin"
    source = _Pieces([*SAID[what], PIECE, PIECE], ours)
    with LineChannel(source, file, Binding()) as channel, theirs:
        for wait in (channel.wait_ready, channel.drain):
            with pytest.raises(HostError, match=f"could not be kept: .*it said {what}"):
                wait(timeout_s=AMPLE_S)
    assert source.pieces == []
    assert file.stat().st_size < 2 << 20
    acks = FolderAcks(0)
    for piece in SAID[what]:
        assert not acks.enough.is_set()
        acks.hear(piece)
    assert acks.enough.is_set()


NOTHING = {
    "more than 16 lines that claim nothing": b"! x\n",
    "16 acks more than attempts": b"+ 1\n",
    "32 attempts more than were acknowledged or failed": b"? 1\n",
}


@pytest.mark.parametrize("what", NOTHING)
def test_lines_of_which_nothing_can_come_end_the_run_early(
    what: str, monkeypatch: pytest.MonkeyPatch
):
    """Four million of them took minutes to read, several times."""
    monkeypatch.setattr(lines, "WRONG_MAX", 16)
    monkeypatch.setattr(lines, "OPEN_MAX", 32)
    acks = FolderAcks(0)
    for _ in range(8):  # an honest program says more
        acks.hear(b"? 1\n? 2\n- 2\n+ 1\n~ note\n")
    acks.hear(NOTHING[what] * (32 if b"?" in NOTHING[what] else 16))
    assert not acks.enough.is_set()
    acks.hear(NOTHING[what])
    assert acks.enough.is_set()
    counter = LineCounter()
    counter.take(NOTHING[what] * 33)
    assert counter.too_much == what


def test_what_a_check_repeats_is_read_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(program_lines, "LINES_MAX", 4)
    monkeypatch.setattr(claims, "LINES_MAX", 4)
    read = lines_of_check(b"= 1\n" * 1000 + b"= 2\n= 1\n" + b"bad x\n" * 1000)
    assert [(line.kind.value, line.first) for line in read.lines] == [
        ("=", 1), ("=", 2), ("=", 1), ("bad", 0),
    ]  # fmt: skip
    assert read.problems == ()
    piece = b"= 7\n" * (1 << 18)  # a line may lie across the pieces in which it is read
    assert [line.first for line in lines_of_check(b"= 17\n" + piece).lines] == [17, 7]


class _Pieces(StreamSource):
    """A source whose packets are these pieces."""

    def __init__(self, pieces: list[bytes], connection: socket.socket) -> None:
        super().__init__(connection)
        self.pieces = pieces

    def next(self) -> Packet | None:
        return Packet(0, self.pieces.pop(0)) if self.pieces else None


def test_lines_beyond_the_limit_are_not_read_and_it_is_said(monkeypatch: pytest.MonkeyPatch):
    """An honest history is incomplete then: never one in which something is lost."""
    monkeypatch.setattr(program_lines, "LINES_MAX", 4)
    monkeypatch.setattr(claims, "LINES_MAX", 4)
    history = history_of([Packet(n, b"? %d\n+ %d\n" % (n, n)) for n in range(3)])
    assert (history.acked.tolist(), history.trouble) == ([0, 1], ("more than 4 lines",))
    assert history_of([Packet(1, b"? 1\n+ 1\nready\n")]).trouble == ()


def test_claims_that_cannot_be_take_bounded_memory():
    said = [Packet(0, b"? 1\n+ 1\n" + b"+ 1\n" * 16384)]
    tracemalloc.start()
    try:
        history = history_of(said)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert history.trouble[-1] == "and 16380 more of its claims"


def test_packets_beyond_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lines, "LINES_MAX", 3)
    data = lines.header(Binding()) + lines.pack(Packet(1, b"")) * 5
    with pytest.raises(DamagedRecording, match="more than 3 writes"):
        lines.unpack(data, Binding())


def test_empty_lines_without_end_take_bounded_memory():
    """A sentence was kept of each: 256 MiB of them took more memory than most hosts have."""
    said = [Packet(0, b"\n" * 4096)] * 64
    tracemalloc.start()
    try:
        read = lines_of_run(said)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert (len(read.problems), read.problems[-1]) == (9, f"and {64 * 4096 - 8} more such lines")


def test_what_is_no_ack_is_not_counted():
    acks = FolderAcks(1)
    for line in (b"+ \n", b"+ x\n", b"+1\n", b"x+ 1\n"):
        acks.hear(line)
    assert not acks.enough.is_set()


@pytest.mark.parametrize(("more", "complete"), [(0, True), (4, False)])
def test_a_check_that_says_too_much_says_nothing(more: int, complete: bool):
    """Of 64 MiB and a bit the bit was left out, and operations in it looked lost."""
    lines = b"= 1\n" * ((LINES_MAX + more) // 4)
    seen = ended_check(0, "", lines)
    assert (seen.complete, len(seen.lines)) == (complete, LINES_MAX if complete else 0)
    assert complete or seen.failure == "it says more than 64 MiB"


def test_the_end_of_a_console_without_end_is_read(tmp_path: Path):
    console = tmp_path / "console"
    with console.open("wb") as file:
        file.truncate(1 << 40)
        file.seek(0, 2)
        file.write(b"last\r\n\xff")
    with bounded():
        assert tail(console).endswith("last\n\\xff")
        assert len(tail(console)) <= TAIL_BYTES + 4
