# SPDX-License-Identifier: Apache-2.0
"""What else a host had to do is measured, powercut's own apart, and said if it was much."""

from __future__ import annotations

import os

import pytest

from powercut.report import words
from powercut.rig import load_meter
from powercut.rig.load_meter import LoadMeter
from powercut.store.host_load import HostLoad, load_of_sessions

HERTZ = os.sysconf("SC_CLK_TCK")


def stat(user=0.0, idle=0.0, steal=0.0, system=0.0) -> str:
    columns = [user, 0, system, idle, 0, 0, 0, steal, 0, 0]
    return "cpu  " + " ".join(str(round(value * HERTZ)) for value in columns) + "\ncpu0 1 2\n"


@pytest.fixture
def own(monkeypatch):
    """Seconds of processor time that powercut and its children took: a list of one."""
    spent = [0.0]

    def times():
        return os.times_result((0.0, 0.0, spent[0], 0.0, 0.0))

    monkeypatch.setattr(load_meter.os, "times", times)
    return spent


def test_the_rest_of_the_time_was_others(tmp_path, own):
    path = tmp_path / "stat"
    path.write_text(stat(user=10, idle=100))
    meter = LoadMeter(path)
    own[0] = 30.0
    path.write_text(stat(user=70, system=10, idle=120, steal=10))
    load = meter.read()
    # 100 s passed on all processors: 70 busy, of which 30 were ours; 10 stolen; 20 idle.
    assert (load.others, load.stolen) == (0.4, 0.1)
    assert load.busy
    assert words.busy(load).startswith("The host was busy: other programs took 40 % of the time of")
    assert "steal time 10.0 %" in words.busy(load)


def test_what_powercut_takes_itself_is_no_load(tmp_path, own):
    path = tmp_path / "stat"
    path.write_text(stat())
    meter = LoadMeter(path)
    own[0] = 95.0
    path.write_text(stat(user=90, system=8, idle=2))
    load = meter.read()
    assert (load.others, load.stolen, load.busy) == (0.03, 0.0, False)
    assert words.busy(load) == ""


@pytest.mark.parametrize(
    "text", ["", "cpu  1 2 3\n", "intr 1 2 3 4 5 6 7 8 9\n", "cpu  a b c d e f g h\n"]
)
def test_a_host_that_does_not_tell_is_not_guessed_at(tmp_path, text):
    path = tmp_path / "stat"
    path.write_text(text)
    assert LoadMeter(path).read() is None
    assert LoadMeter(tmp_path / "none").read() is None
    assert words.busy(None) == ""


def test_this_host_tells():
    load = LoadMeter()
    while (read := load.read()) is None:  # until its clock has ticked
        pass
    assert read.processors == os.cpu_count()


def one(seconds: float, others: float, **more: float) -> HostLoad:
    return HostLoad(**{"seconds": seconds, "processors": 2, "average_before": 1.0, "stolen": 0.0,
                       "others": others, **more})  # fmt: skip


def test_sessions_weigh_as_long_as_they_took():
    sessions = [
        {"started": "x", "load": one(10, 1.0, average_before=7.5).model_dump()},
        {"started": "interrupted"},
        {"started": "y", "load": one(30, 0.0, stolen=0.04).model_dump()},
        {"started": "z", "load": {"nonsense": 1}},
    ]
    assert load_of_sessions(sessions) == one(40, 0.25, stolen=0.03, average_before=7.5)
    assert load_of_sessions([{"started": "older"}]) is None
