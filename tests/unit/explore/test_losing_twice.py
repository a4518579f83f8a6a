# SPDX-License-Identifier: Apache-2.0
"""A state counts as losing if a second recovery loses the same: a check may fail by itself."""

from __future__ import annotations

import pytest
from test_explored_trial import Honest, explored, live, on_file_system
from test_second_look import without_seven

from powercut.checkers.repetition import loses
from powercut.crash.states import CrashState
from powercut.explore import worker as explore_worker
from powercut.explore.request import Prune
from powercut.explore.work import Work
from powercut.explore.worker import LocalWorker
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.recording.state_ref import saved
from powercut.store.exploration import read_exploration


class Fails(Honest):
    """Does not see record 7 of the first `disks` disks that have it: of the first `repeats` of them
    never, of the others at the first look alone.
    """

    disks, repeats = 6, 2

    def __init__(self, recorded):
        super().__init__(recorded)
        self.order = {}
        self.looks = {}
        self.recovered = 0

    def recover(self, writes, *, timeout_s):
        self.recovered += 1
        seen = super().recover(writes, timeout_s=timeout_s)
        gone = without_seven(seen)
        if gone == seen:
            return seen
        disk = repr(seen.extents)
        number = self.order.setdefault(disk, len(self.order))
        self.looks[disk] = self.looks.get(disk, 0) + 1
        fails = number < self.repeats or (number < self.disks and self.looks[disk] == 1)
        return gone if fails else seen


class FailsOnce(Fails):
    """No loss repeats itself."""

    repeats = 0


class Never(Fails):
    """The honest twin."""

    disks = repeats = 0


def by_kind(recorded):
    return {found.kind: found for found in read_exploration(recorded.directory).findings}


class SeldomOnce(Fails):
    """One loss of many does not repeat itself."""

    disks, repeats = 12, 11


def test_of_six_states_that_lose_two_repeat_it_and_nobody_is_convicted(world, monkeypatch):
    recorded = on_file_system(world, monkeypatch, Fails)
    result = explored(recorded, live(recorded))
    assert (result.verdict, result.lost_lsns) == (Verdict.INCONCLUSIVE, ())
    found = by_kind(recorded)
    control = found.pop(FindingKind.CONTROL)
    assert "in 4 of 6 cases" in control.examples[0].message
    told = found.pop(FindingKind.DISAGREEMENT)
    assert {one.verdict for one in found.values()} == {Verdict.INCONCLUSIVE}
    # Of the first two disks, in order of time within a batch, one is that of two states.
    assert sum(one.states for one in found.values()) == 3
    assert result.states.lossy == 0
    assert (told.states, told.verdict) == (4, Verdict.INCONCLUSIVE)
    assert told.examples[0].message.startswith("not repeated: the state was recovered twice")
    assert told.examples[0].id in saved(recorded.directory)


def test_of_twelve_disks_that_lose_eleven_count_and_one_is_told(world, monkeypatch):
    recorded = on_file_system(world, monkeypatch, SeldomOnce)
    result = explored(recorded, live(recorded))
    assert (result.verdict, result.lost_lsns) == (Verdict.LOSSY, (LsnRange(7, 7),))
    found = by_kind(recorded)
    assert found.pop(FindingKind.DISAGREEMENT).verdict is Verdict.INCONCLUSIVE
    assert {one.verdict for one in found.values()} == {Verdict.LOSSY}


def test_where_nothing_else_is_left_the_trial_is_inconclusive(world, monkeypatch):
    recorded = on_file_system(world, monkeypatch, FailsOnce)
    result = explored(recorded, live(recorded))
    assert (result.verdict, result.commits_lost) == (Verdict.INCONCLUSIVE, 0)
    assert result.states.lossy == 0
    finding, control = result.findings
    assert "in 6 of 6 cases" in control.message
    told = by_kind(recorded)[FindingKind.DISAGREEMENT]
    assert told.states == 6
    assert f"in crash state {told.examples[0].id}" in finding.message
    assert "5 other states" in finding.message


def test_a_state_that_loses_nothing_is_recovered_once(world, monkeypatch):
    made = []
    recorded = on_file_system(world, monkeypatch, lambda one: made.append(Never(one)) or made[-1])
    assert explored(recorded, live(recorded)).verdict is Verdict.SAFE
    assert made[0].recovered == read_exploration(recorded.directory).coverage.recovered


@pytest.mark.parametrize(("repeats", "verdict"), [(0, "INCONCLUSIVE"), (1, "LOSSY")])
def test_a_loss_that_an_equal_disk_decides_is_looked_at_again_as_well(
    world, monkeypatch, repeats, verdict
):
    """The disk lost nothing when it was recovered: record 7 was not acknowledged yet."""

    class OneDisk(Fails):
        disks = 1

    monkeypatch.setattr(OneDisk, "repeats", repeats)
    monkeypatch.setattr(explore_worker, "RERUN_ONE_IN", 1 << 40)
    recorded = on_file_system(world, monkeypatch, OneDisk)
    writes = recorded.timeline.requests
    seven = 2 * 6  # each record is a write and a flush
    assert writes.is_write[seven]
    states = [CrashState(at, (seven,)) for at in (735, 738)]
    later = CrashState(760, ())
    work = Work(recorded.directory.path, recorded.directory.run, "guest", Prune.BYTES, 1)
    with LocalWorker(work, recorded) as worker:
        before, same, after = worker.judge([*states, later]).judged
        again = worker.judge([later]).judged[0]
    assert (before.findings, same.findings, same.pruned) == ((), (), True)
    assert [finding.verdict.name for finding in after.findings] == [verdict]
    assert after.pruned is False, "it was recovered a second time"
    assert again.pruned is (verdict == "LOSSY"), "two recoveries have said the same"


def test_states_are_recovered_in_order_of_time_and_each_has_its_own_answer(world, monkeypatch):
    """In whatever order they were drawn: the disk changes least from one instant to the next."""
    instants = []

    class Watched(Fails):
        disks = repeats = 1 << 30

        def recover(self, writes, *, timeout_s):
            instants.append(writes.state.instant)
            return super().recover(writes, timeout_s=timeout_s)

    recorded = on_file_system(world, monkeypatch, Watched)
    drawn = [CrashState(at, ()) for at in (900, 300, 760, 500, 820)]
    work = Work(recorded.directory.path, recorded.directory.run, "guest", Prune.NOTHING, 1)
    with LocalWorker(work, recorded) as worker:
        together = [one.findings for one in worker.judge(drawn).judged]
        seen = list(dict.fromkeys(instants))
        alone = [worker.judge([state]).judged[0].findings for state in drawn]
    assert together == alone
    assert [loses(findings) for findings in together] == [True, False, True, False, True]
    assert seen == sorted(seen)
