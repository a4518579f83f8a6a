# SPDX-License-Identifier: Apache-2.0
"""How far a run is stands beside it while it is under way, and not any more when it has ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest
from runs_by_hand import TEXT

from extras import extra
from powercut.campaign import run
from powercut.campaign.run import EVERY_S, ProgressFile, states_of
from powercut.explore.request import Budget, ExploreProgress
from powercut.model.events import Phase, RunStarted, TrialFinished, TrialPhase
from powercut.model.verdict import Verdict
from powercut.scenario.load import expand, parse_scenario
from powercut.store.progress import PROGRESS, read_progress


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def plan_of(text: str):
    return expand(parse_scenario(text, Path("some.yaml")), seed=1)


class Later:
    """What is to be done when a time has passed, in place of threading.Timer."""

    due: ClassVar[list[Later]] = []

    def __init__(self, seconds: float, act: Callable[[], None]) -> None:
        self.seconds, self.act = seconds, act

    def start(self) -> None:
        self.due.append(self)

    def cancel(self) -> None:
        self.due.remove(self)


@pytest.fixture
def pass_time(clock: Clock) -> Callable[[], None]:
    """Half a second goes by: what is due by then is done."""

    def act() -> None:
        clock.now += EVERY_S
        due, Later.due[:] = Later.due[:], []
        for one in due:
            one.act()

    return act


@pytest.fixture
def heard(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> ProgressFile:
    monkeypatch.setattr("powercut.campaign.run.Timer", Later)
    Later.due.clear()
    heard = ProgressFile(tmp_path, plan_of(TEXT), now=clock)
    heard(RunStarted("by-hand", 1, ("honest", "lying"), 6, tmp_path))
    return heard


def done(cell: str, trial: int, verdict: Verdict = Verdict.SAFE, **how: bool) -> TrialFinished:
    return TrialFinished(cell, trial, verdict, 12, 0, 1.0, **how)


def test_cuts_cells_and_verdicts_are_counted_out_of_all(tmp_path, heard, clock, pass_time):
    clock.now = 30.0 - EVERY_S
    heard(done("honest", 1, earlier=True))
    heard(done("honest", 2))
    heard(done("control", 1, Verdict.LOSSY, control=True))
    pass_time()
    found = read_progress(tmp_path)
    assert (found.cuts_done, found.cuts, found.cuts_before) == (3, 6, 1)
    assert (found.cells_done, found.cells) == (1, 2)
    assert found.verdicts == {Verdict.SAFE: 2, Verdict.LOSSY: 1}
    assert found.seconds_left == pytest.approx(45.0), "what an earlier session made took no time"


def test_a_crowd_of_cuts_is_written_twice_a_second_and_the_last_of_them_too(
    tmp_path, heard, pass_time, monkeypatch
):
    written: list[int] = []
    monkeypatch.setattr(run, "write_progress", lambda _, one: written.append(one.cuts_done))
    for number in range(1, 4):
        heard(done("honest", number))
    assert written == [], "the run's beginning was written just now"
    pass_time()
    heard(done("lying", 1))
    pass_time()
    heard(done("lying", 2))
    heard.remove()
    pass_time()
    assert written == [3, 4], "and none when the run has ended"


def test_more_controls_than_were_foreseen_are_no_more_than_all(tmp_path, heard, pass_time):
    for number in range(8):
        heard(done(f"control {number}", 1, control=True))
    pass_time()
    found = read_progress(tmp_path)
    assert (found.cuts_done, found.cuts, found.seconds_left) == (8, 8, 0.0)


def test_states_are_counted_while_they_are_recovered(tmp_path, heard, clock, pass_time):
    clock.now = 1.0
    heard(TrialPhase("honest", 1, Phase.EXPLORE))
    clock.now = 2.0
    heard.states("honest", 1)(ExploreProgress(40, 0, 2.0, Budget(states=64), "exploring"))
    heard.states("honest", 1)(ExploreProgress(41, 0, 2.0, Budget(states=64), "exploring"))
    found = read_progress(tmp_path)
    assert (found.states, found.states_per_s) == (40, 20.0), "not at each state"
    (busy,) = found.busy
    assert (busy.phase, busy.states, busy.states_all) == ("recovering crash states", 40, 64)
    heard(done("honest", 1))
    pass_time()
    assert read_progress(tmp_path).busy == ()


def test_the_states_that_are_asked_for_are_known_unless_time_ends_them():
    # Bytes are all there is of a log on the bare disk: 64 states in each of four trials.
    assert states_of(plan_of(TEXT)) == 4 * 64
    assert states_of(plan_of(TEXT + "explore: {budget: 10}\n")) == 4 * 10
    assert states_of(plan_of(TEXT + "explore: {budget: off}\n")) == 0
    assert states_of(plan_of(TEXT + "explore: {budget: 5s}\n")) is None


def test_what_cannot_be_written_or_read_stops_nothing(tmp_path, heard, pass_time):
    assert [path.name for path in tmp_path.iterdir()] == [PROGRESS]
    (tmp_path / PROGRESS).unlink()
    (tmp_path / PROGRESS).mkdir()
    heard(done("honest", 1))
    pass_time()
    assert read_progress(tmp_path) is None
    (tmp_path / PROGRESS).rmdir()
    (tmp_path / PROGRESS).write_text("{")
    assert read_progress(tmp_path) is None
    heard.remove()
    assert PROGRESS not in [path.name for path in tmp_path.iterdir()]


def test_a_run_that_says_nothing_any_more_can_be_resumed(tmp_path, heard):
    found = read_progress(tmp_path)
    live_of = extra("pages.live").live_of
    live = live_of(found, Path("results/some run"), "run", now=found.updated + 1)
    assert (live.resume, live.more) == ("", ())
    live = live_of(found, Path("results/some run"), "run", now=found.updated + 900)
    assert live.more == ("No news for 15 min.",)
    assert live.resume.endswith("run --resume 'results/some run'")
