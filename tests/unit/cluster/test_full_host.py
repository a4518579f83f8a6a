# SPDX-License-Identifier: Apache-2.0
"""A host of a fleet whose disk is full: a real file system without room, at each stage of a run."""

from __future__ import annotations

import contextlib
import os
from functools import partial
from pathlib import Path

import host_needs
import pytest
from fake_machine import FAKE, FakeBackend
from hosts_here import ClusterHere, EngineHere, two_cells
from small_disk import small_disk

from powercut.campaign.runner import run_scenarios
from powercut.cluster.host import RunHere
from powercut.cluster.roster import ClusterHost, HostLost
from powercut.cluster.run import ClusterRun
from powercut.model.verdict import Verdict
from powercut.paths import CACHE
from powercut.rig.rig import Rig
from powercut.scenario.load import parse_scenario
from powercut.scenario.machines import MACHINES
from powercut.store.layout import ResultDir
from powercut.store.place import read_place

TRIALS = 2
ROOM = 1 << 20
NO_ROOM = "No space left on device"


@pytest.fixture
def full(tmp_path):
    """Where `beta` is at home."""
    host_needs.require("mounts")
    with small_disk(tmp_path / "beta", ROOM) as folder:
        yield folder


def fill_up(path: Path) -> None:
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_host_whose_disk_fills_up_is_named_and_nothing_is_lost_or_left(
    tmp_path, full, monkeypatch
):
    monkeypatch.setitem(MACHINES, "fake", FAKE)
    homes = {"alpha": tmp_path / "alpha", "beta": full}
    rig = Rig(CACHE, FakeBackend())
    hosts = {name: ClusterHere(home, lambda _: rig) for name, home in homes.items()}

    make = RunHere._make

    def fill(self, order, place, tries):
        """Something else takes all room while the first trial is made."""
        if self._root == hosts["beta"].root and not (full / "ballast").exists():
            fill_up(full / "ballast")
        return make(self, order, place, tries)

    monkeypatch.setattr(RunHere, "_make", fill)
    monkeypatch.setattr("powercut.cluster.run.ROOM", 0)
    with EngineHere(hosts) as engine:
        (done,) = run_scenarios(
            [parse_scenario(two_cells("far", TRIALS), Path("far.yaml"))],
            seed=7,
            results=tmp_path / "results",
            run_of=partial(ClusterRun, engine),
        ).runs
    alpha, beta = done.fleet.hosts
    assert (alpha.state, beta.state) == ("took-part", "lost")
    assert "only 0 MiB are free in " in beta.reason or NO_ROOM in beta.reason
    assert str(full) in beta.reason
    assert [cell.verdict for cell in done.cells] == [Verdict.SAFE, Verdict.LOSSY]
    assert [len(cell.trials) for cell in done.cells] == [TRIALS, TRIALS]
    trials = ResultDir(Path(done.result_directory)).trials()
    assert {read_place(trial.path).host for trial in trials} == {"alpha"}
    made = [path for path in files_below(full) if "cells" in path.parts]
    assert [path for path in made if path.suffix != ".tries"] == []  # what was tried stays known


def test_what_does_not_fit_on_a_host_is_not_left_there_in_part(tmp_path, full):
    large = tmp_path / "large"
    large.write_bytes(os.urandom(2 * ROOM))
    host = ClusterHere(full, lambda _: Rig())
    with EngineHere({full.name: host}) as engine, pytest.raises(HostLost, match=NO_ROOM):
        ClusterHost(engine, engine.workers[0], 1).bring("carried/digest", {"data": large})
    assert files_below(full) == []
