# SPDX-License-Identifier: Apache-2.0
"""Programs of one's own on hosts that have nothing of them: carried there, and checked by digest.

The workers are real processes, each at home in a folder of its own; a program runs in User-Mode
Linux on a root that was carried with it.
"""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path

import pytest
from carried_program import BUSYBOX, FORGOTTEN, made_in
from cluster_workers import worker

from powercut.campaign.runner import run_scenarios
from powercut.cluster.engine import Engine
from powercut.cluster.explore import explore_on
from powercut.cluster.local import scheduler
from powercut.cluster.run import ClusterRun
from powercut.explore.request import Budget, ExploreRequest
from powercut.model.errors import HostError
from powercut.model.verdict import LsnRange, Verdict
from powercut.recover.uml.boot import unavailable
from powercut.store.layout import ResultDir

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
    pytest.mark.skipif(BUSYBOX is None, reason="busybox-static is not installed"),
]

STATES = 16


@pytest.fixture
def scenario(tmp_path):
    return made_in(tmp_path / "mine")


NAMES = ("alpha", "beta")


@pytest.fixture
def address():
    with scheduler() as made:
        yield made


@pytest.fixture
def hosts(tmp_path, address, monkeypatch):
    """Two workers, each a process with a folder of its own."""
    monkeypatch.setattr("powercut.cluster.run.ROOM", 0)
    with contextlib.ExitStack() as stack:
        for name in NAMES:
            stack.enter_context(worker(address, name, "real", tmp_path / name))
        yield {name: tmp_path / name for name in NAMES}


def run(address, scenario, results):
    with Engine(address) as engine:
        (done,) = run_scenarios(
            [scenario], seed=7, trials=1, results=results, run_of=partial(ClusterRun, engine)
        ).runs
    return done


def accounts(done):
    return {host.name: (host.state, host.reason) for host in done.fleet.hosts}


def replaced(host):
    """The program that was carried there is another one now: it forgets something else."""
    (path,) = host.glob("carried/*/files/forgets")
    path.write_text("forgets=2\n")


@pytest.mark.nightly
def test_two_hosts_find_exactly_what_a_program_loses(tmp_path, address, hosts, scenario):
    done = run(address, scenario, tmp_path / "results")
    keeps, forgets = done.cells
    assert accounts(done) == dict.fromkeys(hosts, ("took-part", ""))
    assert keeps.verdict is Verdict.SAFE, keeps.reasons
    assert {(one.kind.value, one.verdict) for one in keeps.controls} == {("no-sync", Verdict.LOSSY)}
    assert forgets.verdict is Verdict.LOSSY
    assert [trial.lost_lsns for trial in forgets.trials] == [(LsnRange(FORGOTTEN, FORGOTTEN),)]
    for host in hosts.values():
        assert list(host.glob("runs/*/*/cells/*/*.tries"))
        assert len(list(host.glob("carried/*"))) == 2  # the program and its root, once

    trial = next(one for one in ResultDir(Path(done.result_directory)).trials() if one.kept)
    record = trial.read_record()
    wanted = ExploreRequest(budget=Budget(states=STATES), engine="uml", confirm=False)
    with Engine(address) as engine:
        found = explore_on(engine, trial, wanted, on_event=lambda _: None)
    assert record.cell == "forgets"
    assert found.verdict is Verdict.LOSSY
    lost = {one for finding in found.findings for one in finding.lsns}
    assert lost == {LsnRange(FORGOTTEN, FORGOTTEN)}, found.findings

    for host in hosts.values():
        replaced(host)
    with pytest.raises(HostError, match="no host of the cluster can take part") as error:
        run(address, scenario, tmp_path / "again")
    assert f"program {scenario.parent / 'program'} has digest " in str(error.value)
    assert "was carried there" in str(error.value)
