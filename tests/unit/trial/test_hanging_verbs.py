# SPDX-License-Identifier: Apache-2.0
"""A verb that hangs costs its deadline once."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from powercut.channel.port import CommandResult
from powercut.model.errors import DeadlineExceeded, HostError
from powercut.model.observation import Observation
from powercut.model.operations import Pressed
from powercut.rig.set_up import Deadline
from powercut.trial import program_lines, record
from powercut.trial.system import KernelSystem

LATE = Observation((), complete=False, failure="it did not end within 0.01 s")
ENDED = CommandResult(0, "", {}, (), (), None)


class _Engine:
    """Recovers to what it is told, and takes its time."""

    def __init__(self, seen: Observation, takes_s: float, clock: SimpleNamespace) -> None:
        self._seen = seen
        self._takes_s = takes_s
        self._clock = clock

    def recover(self, writes, *, timeout_s: float) -> Observation:
        del writes, timeout_s
        self._clock.now += self._takes_s
        return self._seen


@pytest.fixture
def asked(clock):
    """Asks a check that says this and takes so many seconds, of the hundredth that it may take."""

    def ask(seen: Observation, takes_s: float) -> list[Observation]:
        kept: list[Observation] = []
        record._answer(_Engine(seen, takes_s, clock), [], kept.append, "a disk", 0.01)
        return kept

    return ask


def test_a_check_that_hangs_is_not_asked_again(asked):
    with pytest.raises(DeadlineExceeded, match="the check, of a disk: it did not end") as caught:
        asked(LATE, 0.02)
    assert "state_timeout" in caught.value.hint


@pytest.mark.parametrize("lines", [b"bad the store\n", b"x 1 altered\n"])
def test_what_it_found_to_be_wrong_before_stands(asked, lines):
    seen = Observation((), complete=False, failure=LATE.failure, lines=lines)
    assert asked(seen, 0.02) == [seen]


def test_one_that_failed_in_time_or_was_slow_and_ended_is_asked_again(asked):
    assert asked(LATE, 0) == [LATE]
    assert asked(Observation(()), 0.02) == [Observation(())]


class _Channel:
    """A kernel whose verb ends after so many waits; a wait takes as long as it may."""

    def __init__(self, clock, ends_after: int) -> None:
        self.waits = 0
        self._clock = clock
        self._ends_after = ends_after

    def start_unsynced(self, *argv: str) -> None: ...

    def cut_nodes(self, *cut: object, timeout_s: float) -> None: ...

    def press(self, seed: int, *, timeout_s: float) -> None: ...

    def pressed(self, *, timeout_s: float) -> Pressed:
        return Pressed()

    def set_up(self, *argv: str, timeout_s: float) -> CommandResult:
        assert self.waits == 0
        return self.wait_done(timeout_s=timeout_s)

    def wait_done(self, *, timeout_s: float) -> CommandResult:
        self.waits += 1
        if self.waits > self._ends_after:
            return ENDED
        self._clock.now += timeout_s
        raise DeadlineExceeded("it did not end")


@pytest.fixture
def clock(monkeypatch):
    """The clock of deadlines."""
    made = SimpleNamespace(now=1000.0)
    monkeypatch.setattr("powercut.rig.set_up.time.monotonic", lambda: made.now)  # everybody's
    return made


@pytest.fixture
def busy(clock, monkeypatch):
    """A host that gives each phase five times its deadline; the system of a kernel on it."""
    monkeypatch.setattr("powercut.rig.set_up.patience", lambda: 5.0)
    return KernelSystem(SimpleNamespace(deadline=Deadline(60)))


def set_up(busy, channel, look=lambda: None):
    return busy.set_up(channel, ("setup", "/mnt/data"), look)


def test_a_setup_that_sleeps_has_no_more_time_on_a_busy_host(clock, busy, monkeypatch):
    monkeypatch.setattr(program_lines, "_started_seconds", lambda: 7.0)
    with pytest.raises(DeadlineExceeded, match=r"setup /mnt/data did not end within 60 s$"):
        set_up(busy, _Channel(clock, ends_after=99))
    assert set_up(busy.__class__(SimpleNamespace(deadline=Deadline(60))), _Channel(clock, 9))


def test_a_setup_that_works_has_more_time_on_a_busy_host(clock, busy, monkeypatch):
    worked = iter(range(1000))
    monkeypatch.setattr(program_lines, "_started_seconds", lambda: next(worked))
    assert set_up(busy, _Channel(clock, ends_after=59)) is ENDED
    assert clock.now == 1000 + 59 * 5
    again = KernelSystem(SimpleNamespace(deadline=Deadline(60)))
    with pytest.raises(DeadlineExceeded, match="did not end within 300 s"):
        set_up(again, _Channel(clock, ends_after=99))


def test_a_setup_that_says_lines_without_end_is_ended_by_them(clock, busy):
    channel = _Channel(clock, ends_after=99)

    def look() -> None:
        if channel.waits == 3:
            raise HostError("it said too much")

    with pytest.raises(HostError, match="it said too much"):
        set_up(busy, channel, look)
    assert clock.now == 1000 + 3 * 5
