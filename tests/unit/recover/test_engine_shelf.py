# SPDX-License-Identifier: Apache-2.0
"""Engines that are lent to one trial after the other."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from powercut.model.errors import HostError
from powercut.recover.order import EngineOrder
from powercut.recover.plan import HostRoot, PlanDisk, PlanLayers, RecoveryPlan
from powercut.recover.uml.kernel import UmlKernel
from powercut.rig import engine_shelf
from powercut.rig.engine_shelf import EngineShelf
from powercut.rig.engines import EngineRow
from powercut.scenario.settings import Parameters


def lend(shelf: EngineShelf, base: Path, reader: str, name: str = "fake", suite: str = ""):
    plan = RecoveryPlan.of("xfs", "", "/mnt", (reader,))
    kernel = UmlKernel(suite, Path("linux"), Path("modules")) if suite else None
    return shelf.lend(name, EngineOrder(base, plan, Parameters(), kernel))


class FakeEngine:
    """Boots and follows plans, and says what it did."""

    made: list[FakeEngine]

    def __init__(self, order: EngineOrder) -> None:
        self.base, self.plans, self.pid, self.closed = order.base, [order.plan], None, False
        self.made.append(self)

    def start(self, *, timeout_s: float) -> None:
        assert timeout_s > 0
        self.pid = 1

    def is_up(self) -> bool:
        return self.pid is not None

    def follow(self, plan: RecoveryPlan, *, timeout_s: float) -> None:
        assert not self.closed, timeout_s
        self.plans.append(plan)

    def close(self) -> None:
        self.closed, self.pid = True, None


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[FakeEngine]:
    monkeypatch.setattr(FakeEngine, "made", [], raising=False)
    monkeypatch.setattr(engine_shelf, "open_engine", lambda _, order: FakeEngine(order))
    rows = {"fake": EngineRow(""), "upper": EngineRow("", over="fake")}
    monkeypatch.setattr(engine_shelf, "ENGINES", rows)
    monkeypatch.setattr(engine_shelf, "open_over", lambda _, beneath, __: nullcontext([beneath]))
    return FakeEngine.made


def image(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_bytes(name.encode() * 100)
    return path


def test_trials_on_one_base_share_an_engine(made, tmp_path):
    base = image(tmp_path, "base")
    (tmp_path / "again").hardlink_to(base)
    with EngineShelf() as shelf:
        with lend(shelf, base, "one") as first:
            assert first.pid == 1
        with lend(shelf, tmp_path / "again", "two") as second:
            assert second is first
    assert [p.reader for p in made[0].plans[1:]] == [("one",), ("two",)]
    assert (len(made), made[0].closed) == (1, True)


def test_an_engine_that_works_with_another_has_the_one_that_the_last_trial_had(made, tmp_path):
    base = image(tmp_path, "base")
    with EngineShelf() as shelf:
        for name in ("fake", "upper", "fake"):
            with lend(shelf, base, name, name):
                pass
    assert [p.reader for p in made[0].plans[1:]] == [("fake",), ("upper",), ("fake",)]
    assert len(made) == 1


def test_what_goes_wrong_above_ends_the_engine_beneath(made, tmp_path):
    base = image(tmp_path, "base")
    with EngineShelf() as shelf:
        with pytest.raises(HostError), lend(shelf, base, "one", "upper"):
            raise HostError("no answer")
        assert made[0].closed


def test_another_kernel_is_another_engine(made, tmp_path):
    base = image(tmp_path, "base")
    with EngineShelf() as shelf:
        for suite in ("", "host", "sid"):
            with lend(shelf, base, "one", suite=suite):
                pass
    assert len(made) == 2  # none given is the host's


@pytest.mark.parametrize(
    "change",
    [
        {"layers": PlanLayers(("dm-crypt",), (), ("crypt",))},
        {"disks": (PlanDisk("first", 0, 1 << 20, "first"), PlanDisk("b", 1 << 20, 4096, "folder"))},
        {"host": HostRoot("/", (), base="/other")},
    ],
)
def test_what_a_kernel_keeps_as_it_was_told_first_is_another_engine(made, tmp_path, change):
    base, plan = image(tmp_path, "base"), RecoveryPlan.of("xfs", "", "/mnt", ("one",))
    with EngineShelf() as shelf:
        for one in (plan, replace(plan, **change), plan):
            with shelf.lend("fake", EngineOrder(base, one, Parameters())):
                pass
    assert len(made) == 2


def test_another_base_needs_another_engine(made, tmp_path):
    base = image(tmp_path, "base")
    copy = tmp_path / "copy"
    shutil.copy(base, copy)
    with EngineShelf() as shelf:
        for path in (base, copy, base):
            with lend(shelf, path, "one"):
                pass
        assert len(made) == 2


def test_an_engine_is_lent_to_one_at_a_time(made, tmp_path):
    base = image(tmp_path, "base")
    with EngineShelf() as shelf:
        with lend(shelf, base, "one") as one, lend(shelf, base, "two") as two:
            assert one is not two
        with lend(shelf, base, "three"):
            assert len(made) == 2


def test_an_engine_in_which_something_went_wrong_is_not_lent_again(made, tmp_path):
    base = image(tmp_path, "base")
    with EngineShelf() as shelf:
        with pytest.raises(HostError, match="no answer"), lend(shelf, base, "one"):
            raise HostError("no answer")
        assert made[0].closed
        with lend(shelf, base, "two"):
            assert len(made) == 2


def test_a_kernel_that_died_is_booted_anew_with_the_new_plan(made, tmp_path):
    base = image(tmp_path, "base")
    with EngineShelf() as shelf:
        with lend(shelf, base, "one") as engine:
            engine.pid = None
        with lend(shelf, base, "two") as engine:
            assert engine.pid == 1
            assert [p.reader for p in engine.plans][-1] == ("two",)


def test_only_so_many_wait(made, tmp_path):
    with EngineShelf(idle_max=1) as shelf:
        for name in ("a", "b"):
            with lend(shelf, image(tmp_path, name), "one"):
                pass
        assert [engine.closed for engine in made] == [True, False]
