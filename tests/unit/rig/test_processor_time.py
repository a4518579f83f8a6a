# SPDX-License-Identifier: Apache-2.0
"""Processor time of a tree of processes, from /proc."""

import os
import subprocess
import sys

import pytest

from powercut.machine.patience import processor_seconds

HERTZ = os.sysconf("SC_CLK_TCK")


def process(proc, pid: int, parent: int, *ticks: int, name: str = "a (b) c") -> None:
    folder = proc / str(pid)
    folder.mkdir()
    fields = ["S", parent, *[0] * 9, *ticks, *[0] * 30]
    (folder / "stat").write_text(f"{pid} ({name}) {' '.join(map(str, fields))}\n")


def test_a_process_counts_with_all_below_it_and_with_what_has_ended_there(tmp_path):
    process(tmp_path, 1, 0, 10**6, 10**6, 10**6, 10**6)
    process(tmp_path, 10, 1, 1, 2, 3, 4)
    process(tmp_path, 11, 10, 10, 20, 30, 40)
    process(tmp_path, 12, 11, 100, 200, 300, 400)
    process(tmp_path, 13, 1, 10**6, 0, 0, 0)
    (tmp_path / "self").mkdir()
    (tmp_path / "14").mkdir()  # it has ended while we looked
    (tmp_path / "15").mkdir()
    (tmp_path / "15/stat").symlink_to("x" * 300)  # as ESRCH, no error that means "not there"
    assert processor_seconds(tmp_path, 10) * HERTZ == pytest.approx(1110)
    assert processor_seconds(tmp_path, 12) * HERTZ == pytest.approx(1000)
    assert processor_seconds(tmp_path, 99) == 0
    assert processor_seconds(tmp_path / "none") == 0


def test_a_child_counts_before_it_has_ended_and_after():
    before = processor_seconds()
    busy = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    argv = [sys.executable, "-I", "-S", "-c", busy]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        assert processor_seconds() - before >= 0.28  # a tick is 0.01 s, of two clocks
        child.communicate(b"\n")
    assert processor_seconds() - before >= 0.28
