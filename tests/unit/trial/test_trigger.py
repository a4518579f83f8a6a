# SPDX-License-Identifier: Apache-2.0
"""When the power is cut: one rule for what acknowledges by wire and by lines."""

from __future__ import annotations

import math
import os
import time

import pytest

from powercut.channel.port import EndedEarly
from powercut.machine import patience as host_patience
from powercut.machine.patience import patience
from powercut.model.errors import DeadlineExceeded, HostError
from powercut.rig.set_up import Deadline
from powercut.scenario.plan import Trigger, TriggerKind
from powercut.trial.trigger import wait_trigger

AMPLE_S = 3600.0  # no test waits for it
ACKS_5 = Trigger(TriggerKind.ACKS, 5)
ACKS_50 = Trigger(TriggerKind.ACKS, 50)
A_MOMENT = Trigger(TriggerKind.AFTER, 50_000_000)
AN_HOUR = Trigger(TriggerKind.AFTER, 3500 * 10**9)


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """The host, as far as deadlines go."""
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setattr(host_patience, "processor_quota", lambda: math.inf)


class Said:
    """A workload that has acknowledged so much, and has ended in order or goes on for ever."""

    def __init__(self, acked=0, *, ended=False, ready=True):
        self.acked = acked
        self._ended = ended
        self._ready = ready
        self.waited = []

    def wait_ready(self, *, timeout_s):
        if not self._ready:
            raise EndedEarly("ended before it was ready")

    def wait_acks(self, count, *, timeout_s):
        self.waited.append(timeout_s)
        if self.acked < count and not self._ended:
            time.sleep(min(timeout_s, 0.1))
        return self.acked >= count

    def drain(self, *, timeout_s):
        """Nothing is on its way."""


@pytest.mark.parametrize("at_most_s", [None, AMPLE_S])
def test_so_many_acks(at_most_s):
    wait_trigger(Said(5), ACKS_5, Deadline(AMPLE_S), at_most_s=at_most_s)


def test_a_prefix_must_get_there():
    with pytest.raises(HostError, match="never came: the workload had ended"):
        wait_trigger(Said(4, ended=True), ACKS_5, Deadline(AMPLE_S))
    with pytest.raises(EndedEarly):
        wait_trigger(Said(ended=True, ready=False), ACKS_5, Deadline(AMPLE_S))


def test_a_program_that_has_done_its_work_is_cut():
    done = Said(4, ended=True)
    wait_trigger(done, ACKS_5, Deadline(AMPLE_S), at_most_s=AMPLE_S)
    wait_trigger(done, AN_HOUR, Deadline(AMPLE_S), at_most_s=AMPLE_S)
    wait_trigger(Said(ready=False), ACKS_5, Deadline(AMPLE_S), at_most_s=AMPLE_S)


def test_a_slow_program_is_cut_in_time():
    slow = Said(10)
    wait_trigger(slow, ACKS_50, Deadline(AMPLE_S), at_most_s=0.01)
    assert slow.waited == [0.01]


def test_one_that_has_acknowledged_too_little_has_longer():
    slow = Said(9)
    wait_trigger(slow, ACKS_50, Deadline(AMPLE_S), at_most_s=0.01)
    assert slow.waited == [0.01, 0.04]
    slow = Said(9)
    wait_trigger(slow, Trigger(TriggerKind.ACKS, 9), Deadline(AMPLE_S), at_most_s=0.01)
    assert slow.waited == [0.01]
    slow = Said(0)
    wait_trigger(slow, ACKS_50, Deadline(AMPLE_S), at_most_s=AMPLE_S / 2)
    assert slow.waited[1] == pytest.approx(AMPLE_S / 2, rel=0.1)  # the rest is for what follows


@pytest.mark.parametrize("at_most_s", [None, AMPLE_S])
def test_the_deadline_of_the_trial_is_over_first(at_most_s):
    with pytest.raises(DeadlineExceeded, match="did not come before the deadline") as error:
        wait_trigger(Said(4), ACKS_5, Deadline(0.05), at_most_s=at_most_s)
    assert "deadline" in error.value.hint
    with pytest.raises(HostError, match="beyond the deadline"):
        wait_trigger(Said(4), AN_HOUR, Deadline(60), at_most_s=at_most_s)


@pytest.mark.parametrize("ended", [False, True])
def test_a_moment_is_waited_for_whole_even_if_the_log_is_full(ended):
    begun = time.monotonic()
    wait_trigger(Said(4, ended=ended), A_MOMENT, Deadline(AMPLE_S))
    assert time.monotonic() - begun >= 0.05


@pytest.mark.parametrize(
    ("load", "processors", "times"),
    [(0.1, 2, 1.0), (2.0, 2, 1.0), (6.0, 2, 3.0), (17.0, 2, 5.0), (17.0, 16, 1.0625)],
)
def test_a_busy_host_has_longer(monkeypatch, load, processors, times):
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)))
    deadline = Deadline(AMPLE_S)
    assert AMPLE_S * times - 60 < deadline.remaining_s <= AMPLE_S * times


@pytest.mark.parametrize(
    ("quota", "load", "times"),
    [(2.0, 0.1, 1.0), (0.5, 0.1, 2.0), (0.5, 6.0, 3.0), (0.01, 0.1, 5.0)],
)
def test_a_container_with_a_share_of_a_processor_has_longer(monkeypatch, quota, load, times):
    monkeypatch.setattr(host_patience, "processor_quota", lambda: quota)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert patience() == times


def test_a_host_that_does_not_tell_its_load_has_the_time_of_a_quiet_one(monkeypatch):
    monkeypatch.setattr(os, "getloadavg", fails)
    assert Deadline(AMPLE_S).remaining_s <= AMPLE_S


def fails():
    raise OSError("no load")
