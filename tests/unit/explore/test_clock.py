# SPDX-License-Identifier: Apache-2.0
"""A budget of time holds, whatever a state takes: played with a clock of its own."""

from __future__ import annotations

import pytest

from powercut.explore.clock import BATCH_MAX, Clock
from powercut.explore.request import Budget, ExploreProgress
from powercut.model.confidence import STATES_MIN
from powercut.model.errors import UsageError


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def play(budget: Budget, each: float, *, starts: float, jobs: int = 1, losses: int = 0):
    """Explores with states that take `each` seconds, and confirmations of 8; how long it took."""
    time = Time()
    clock = Clock(budget, budget.first_share(after=0, depth=0), jobs, now=time)
    time.now += starts
    clock.work()
    checked = 0
    while size := clock.batch(checked, 8.0 * losses):
        time.now += each * size / jobs
        checked += size
    time.now += 8.0 * losses
    return clock.taken, checked


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("starts", [0.1, 2.0, 6.0])
@pytest.mark.parametrize("each", [0.001, 0.03, 0.5, 3.0])
@pytest.mark.parametrize("losses", [0, 1])
def test_a_budget_holds_within_a_fifth(each, starts, jobs, losses):
    taken, checked = play(Budget(seconds=20), each, starts=starts, jobs=jobs, losses=losses)
    assert 16 <= taken <= 24
    assert checked >= 1


def test_what_takes_longer_than_the_budget_is_begun_once():
    taken, checked = play(Budget(seconds=20), 45.0, starts=1.0)
    assert (taken, checked) == (46.0, 1)
    taken, checked = play(Budget(seconds=20), 0.1, starts=60.0)
    assert checked == 1


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("each", [0.001, 0.2, 0.5, 3.0, 45.0])
def test_of_both_bounds_time_ends_nothing_before_a_safe_has_its_states(each, jobs):
    budget = Budget(states=320, seconds=20)
    time = Time()
    clock = Clock(budget, budget.first_share(after=0, depth=0), jobs, now=time)
    clock.work()
    checked = 0
    while (size := clock.batch(checked, 0.0)) and checked < 320:
        time.now += each * size / jobs
        checked += size
    assert (checked >= 320) == (each * 320 / jobs <= 20)
    assert checked >= STATES_MIN
    assert checked <= max(STATES_MIN, 24 * jobs / each) or each < 0.01


@pytest.mark.parametrize(
    ("text", "states", "seconds"),
    [("320,90s", 320, 90.0), ("1000,1.5m", 1000, 90.0), ("7", 7, None), ("5m", None, 300.0)],
)
def test_a_budget_says_how_many_or_how_long_or_both(text, states, seconds):
    budget = Budget.parse(text)
    assert (budget.states, budget.seconds) == (states, seconds)
    assert Budget.parse(str(budget)) == budget


@pytest.mark.parametrize("text", ["90s,320", "320,", ",90s", "320,90s,1", "320,40", "0,90s", ""])
def test_what_is_no_budget_is_refused_with_an_example(text):
    with pytest.raises(UsageError, match="neither a number of states nor a time") as raised:
        Budget.parse(text)
    assert "320,90s" in raised.value.hint


def test_how_long_it_takes_follows_from_the_pace_and_from_the_time_there_is():
    assert ExploreProgress(20, 0, 4.0, Budget(320, 90.0), "").left_s == 60.0
    assert ExploreProgress(20, 0, 20.0, Budget(320, 90.0), "").left_s == 70.0
    assert ExploreProgress(20, 0, 4.0, Budget(320), "").left_s == 60.0
    assert ExploreProgress(0, 0, 4.0, Budget(320), "").left_s == float("inf")
    assert ExploreProgress(40, 0, 99.0, Budget(320, 90.0), "").left_s == 0.0


def test_a_budget_of_states_is_not_one_of_time():
    clock = Clock(Budget(states=100), Budget(states=100), 1, now=Time())
    assert clock.batch(0, 99.0) == clock.batch(50, 99.0) == 25
    assert clock.has_time(10**6, 1, 99.0)


@pytest.mark.parametrize(
    ("states", "jobs", "size"), [(8, 1, 16), (100, 2, 16), (200, 2, 25), (10**6, 2, BATCH_MAX)]
)
def test_each_worker_has_several_pieces_of_many_states(states, jobs, size):
    budget = Budget(states=states)
    assert Clock(budget, budget, jobs, now=Time()).batch(0, 0.0) == size


def test_confirmations_do_not_take_all():
    time = Time()
    clock = Clock(Budget(seconds=20), Budget(seconds=20), 1, now=time)
    clock.work()
    time.now += 5
    assert clock.batch(100, 1000.0) > 0
    time.now += 6
    assert clock.batch(100, 1000.0) == 0
    assert not clock.has_time(0, 100, 1000.0)
    assert clock.has_time(10, 100, 0.0)
    assert not clock.has_time(100, 100, 0.0)
