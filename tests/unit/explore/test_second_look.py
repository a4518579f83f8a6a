# SPDX-License-Identifier: Apache-2.0
"""An engine that decides some states in a shorter way convicts nobody by that way alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_explored_trial import Honest, explored, live, on_file_system

from powercut.crash.states import CrashState
from powercut.explore import worker as explore_worker
from powercut.explore.request import Prune
from powercut.explore.work import Work
from powercut.explore.worker import LocalWorker
from powercut.model.observation import Extent
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.recover.port import SecondLook
from powercut.report.terminal.exploration import coverage_lines
from powercut.store.exploration import read_exploration
from powercut.wal.layout import SlotState


class Short(Honest):
    """Looks with its own eyes, and the shorter way never sees record 7."""

    doubts = ()
    on_host = 0
    same_files = 0
    was_short = True
    asked_again = 0

    def look_again(self, writes, *, timeout_s):
        type(self).asked_again += 1
        return self.longer(super().recover(writes, timeout_s=timeout_s))

    def recover(self, writes, *, timeout_s):
        return without_seven(super().recover(writes, timeout_s=timeout_s))

    @staticmethod
    def longer(seen):
        return seen


class Loses(Short):
    """The longer way does not see it either."""

    @staticmethod
    def longer(seen):
        return without_seven(seen)


class Repeats(Short):
    """Every second state has the files of an earlier one."""

    calls = 0

    def recover(self, writes, *, timeout_s):
        type(self).calls += 1
        self.same_files += type(self).calls % 2 == 0
        return Honest.recover(self, writes, timeout_s=timeout_s)


def without_seven(seen):
    present = [e for e in seen.extents if e.state is SlotState.INTACT]
    last = max((e.lsn + e.count - 1 for e in present), default=0)
    if last < 7:
        return seen
    rest = [Extent(7, last - 7, SlotState.INTACT, 8)] if last > 7 else []
    gone = Extent(6, 1, SlotState.ABSENT)
    after = [Extent(last, 80 - last, SlotState.ABSENT)] if last < 80 else []
    return replace(seen, extents=(Extent(0, 6, SlotState.INTACT, 1), gone, *rest, *after))


@pytest.fixture(autouse=True)
def _from_zero(monkeypatch):
    monkeypatch.setattr(Short, "asked_again", 0)


def test_a_loss_of_the_shorter_way_alone_is_none_and_is_told(world, monkeypatch):
    recorded = on_file_system(world, monkeypatch, Short)
    assert isinstance(Short(recorded), SecondLook)
    result = explored(recorded, live(recorded))
    assert Short.asked_again > 0
    assert (result.verdict, result.commits_lost) == (Verdict.INCONCLUSIVE, 0)
    assert {finding.kind for finding in result.findings} == {FindingKind.DISAGREEMENT}
    assert "the guest is believed" in result.findings[0].message


class LosesAnother(Short):
    """The longer way sees record 7; record 6 it does not see, twice."""

    blind = 2
    looks = 0

    def look_again(self, writes, *, timeout_s):
        self.looks += 1
        seen = Honest.recover(self, writes, timeout_s=timeout_s)
        there = Extent(0, 5, SlotState.INTACT, 1), Extent(6, 1, SlotState.INTACT, 7)
        return replace(seen, extents=there) if self.looks <= self.blind else seen


class LosesAnotherOnce(LosesAnother):
    """It does so once."""

    blind = 1


SHORTER_DIFFERS = (Verdict.INCONCLUSIVE, "the guest is believed", ())


@pytest.mark.parametrize(
    ("engine", "told"),
    [
        (Short, [SHORTER_DIFFERS]),
        (Loses, [(Verdict.LOSSY, "acknowledged and gone", (LsnRange(7, 7),))]),
        (
            LosesAnother,
            [(Verdict.LOSSY, "acknowledged and gone", (LsnRange(6, 6),)), SHORTER_DIFFERS],
        ),
        (
            LosesAnotherOnce,
            [(Verdict.INCONCLUSIVE, "not repeated", (LsnRange(6, 6),)), SHORTER_DIFFERS],
        ),
    ],
)
def test_what_the_shorter_way_said_of_an_equal_disk_is_not_what_the_guest_says(
    world, monkeypatch, engine, told
):
    """When that disk was looked at, record 7 had not been acknowledged."""
    monkeypatch.setattr(explore_worker, "RERUN_ONE_IN", 1 << 40)
    recorded = on_file_system(world, monkeypatch, engine)
    work = Work(recorded.directory.path, recorded.directory.run, "guest", Prune.BYTES, 1)
    with LocalWorker(work, recorded) as worker:
        before, after = worker.judge([CrashState(735, (12,)), CrashState(760, ())]).judged
    assert before.findings == ()
    assert len(after.findings) == len(told)
    for finding, (verdict, words, lsns) in zip(after.findings, told, strict=True):
        assert (finding.verdict, words in finding.message, finding.lsns) == (verdict, True, lsns)


def test_why_the_shorter_way_is_not_to_be_believed_is_told_once(world, monkeypatch):
    class Doubted(Honest):
        doubts = ("a check in the guest said something else",)
        on_host = same_files = 0
        was_short = False
        look_again = Honest.recover

    recorded = on_file_system(world, monkeypatch, Doubted)
    work = Work(recorded.directory.path, recorded.directory.run, "guest", Prune.NOTHING, 1)
    with LocalWorker(work, recorded) as worker:
        first, second = worker.judge([CrashState(735, ()), CrashState(860, ())]).judged
    (told,) = first.findings
    assert (told.kind, told.message) == (FindingKind.DISAGREEMENT, *Doubted.doubts)
    assert second.findings == ()


def test_a_loss_of_both_ways_convicts(world, monkeypatch):
    recorded = on_file_system(world, monkeypatch, Loses)
    result = explored(recorded, live(recorded))
    assert result.states is not None
    # Each disk that loses something was looked at again, once.
    assert 0 < Loses.asked_again <= result.states.lossy
    assert (result.verdict, result.lost_lsns) == (Verdict.LOSSY, (LsnRange(7, 7),))
    assert {finding.verdict for finding in result.findings} == {Verdict.LOSSY}


def test_states_decided_by_equal_files_are_told_apart(world, monkeypatch):
    recorded = on_file_system(world, monkeypatch, Repeats)
    monkeypatch.setattr(Repeats, "calls", 0)
    assert explored(recorded, live(recorded)).verdict is Verdict.SAFE
    result = read_exploration(recorded.directory)
    assert 0 < result.coverage.same_files == Repeats.calls // 2 < result.coverage.recovered
    told = f"{result.coverage.same_files:,} of {result.coverage.recovered:,} recovered states had"
    assert any(told in line for line in coverage_lines(result))
