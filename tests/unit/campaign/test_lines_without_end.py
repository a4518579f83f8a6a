# SPDX-License-Identifier: Apache-2.0
"""Programs that say or print without end: bounded memory, and no verdict from a part of it."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import pytest
from hostile import bounded

from powercut.campaign.folder import _Acks
from powercut.model.operations import Packet
from powercut.recover.native.folder import LINES_MAX, ended_check
from powercut.sandbox.printed import TAIL_BYTES, tail
from powercut.workload.program.lines import lines_of_run

PIECE = bytes(1 << 16)


def test_a_line_without_end_takes_bounded_time_and_memory():
    """Each piece was appended to all that came before: 256 MiB in pieces copied 512 GiB."""
    acks = _Acks(2)
    begin = time.process_time()
    with bounded():
        acks.hear(b"+ 1\n+ ")
        for _ in range(4096):
            acks.hear(PIECE)
        assert not acks.enough.is_set()
        acks.hear(b"\n+ 2\n")
        assert acks.enough.is_set()
    assert time.process_time() - begin < 8


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
    acks = _Acks(1)
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
