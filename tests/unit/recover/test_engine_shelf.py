# SPDX-License-Identifier: Apache-2.0
"""Engines that are lent to one trial after the other."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from powercut.model.errors import HostError
from powercut.recover.port import RecoveryPlan
from powercut.rig import engine_shelf
from powercut.rig.engine_shelf import EngineShelf


def plan(reader: str) -> RecoveryPlan:
    return RecoveryPlan("xfs", "", "/mnt", (reader,))


class FakeEngine:
    """Boots and follows plans, and says what it did."""

    made: list[FakeEngine]

    def __init__(self, base: Path, plan: RecoveryPlan) -> None:
        self.base, self.plans, self.pid, self.closed = base, [plan], None, False
        self.made.append(self)

    def start(self, *, timeout_s: float) -> None:
        assert timeout_s > 0
        self.pid = 1

    def follow(self, plan: RecoveryPlan, *, timeout_s: float) -> None:
        assert not self.closed, timeout_s
        self.plans.append(plan)

    def close(self) -> None:
        self.closed, self.pid = True, None


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[FakeEngine]:
    monkeypatch.setattr(FakeEngine, "made", [], raising=False)
    monkeypatch.setattr(engine_shelf, "UmlEngine", FakeEngine)
    return FakeEngine.made


def image(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_bytes(name.encode() * 100)
    return path


def test_trials_on_one_base_share_an_engine(made, tmp_path):
    base = image(tmp_path, "base")
    (tmp_path / "again").hardlink_to(base)
    with EngineShelf() as shelf:
        with shelf.lend(base, plan("one")) as first:
            assert first.pid == 1
        with shelf.lend(tmp_path / "again", plan("two")) as second:
            assert second is first
    assert [p.reader for p in made[0].plans[1:]] == [("one",), ("two",)]
    assert (len(made), made[0].closed) == (1, True)


def test_another_base_needs_another_engine(made, tmp_path):
    base = image(tmp_path, "base")
    copy = tmp_path / "copy"
    shutil.copy(base, copy)
    with EngineShelf() as shelf:
        for path in (base, copy, base):
            with shelf.lend(path, plan("one")):
                pass
        assert len(made) == 2


def test_an_engine_is_lent_to_one_at_a_time(made, tmp_path):
    base = image(tmp_path, "base")
    with EngineShelf() as shelf:
        with shelf.lend(base, plan("one")) as one, shelf.lend(base, plan("two")) as two:
            assert one is not two
        with shelf.lend(base, plan("three")):
            assert len(made) == 2


def test_an_engine_in_which_something_went_wrong_is_not_lent_again(made, tmp_path):
    base = image(tmp_path, "base")
    with EngineShelf() as shelf:
        with pytest.raises(HostError, match="no answer"), shelf.lend(base, plan("one")):
            raise HostError("no answer")
        assert made[0].closed
        with shelf.lend(base, plan("two")):
            assert len(made) == 2


def test_a_kernel_that_died_is_booted_anew_with_the_new_plan(made, tmp_path):
    base = image(tmp_path, "base")
    with EngineShelf() as shelf:
        with shelf.lend(base, plan("one")) as engine:
            engine.pid = None
        with shelf.lend(base, plan("two")) as engine:
            assert engine.pid == 1
            assert [p.reader for p in engine.plans][-1] == ("two",)


def test_only_so_many_wait(made, tmp_path):
    with EngineShelf(idle_max=1) as shelf:
        for name in ("a", "b"):
            with shelf.lend(image(tmp_path, name), plan("one")):
                pass
        assert [engine.closed for engine in made] == [True, False]
