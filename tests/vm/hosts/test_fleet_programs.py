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
from fleet_hosts import make_ready
from hosts_here import ProcessHost

from powercut.campaign.runner import run_scenarios
from powercut.explore.request import Budget, ExploreRequest
from powercut.fleet.explore import explore_on
from powercut.fleet.fleet import Fleet
from powercut.fleet.hosts_file import HostSettings
from powercut.fleet.run import FleetRun
from powercut.fleet.wheels import make_wheels
from powercut.model.errors import HostError
from powercut.model.verdict import LsnRange, Verdict
from powercut.recover.uml.boot import unavailable
from powercut.store.layout import ResultDir

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
    pytest.mark.skipif(BUSYBOX is None, reason="busybox-static is not installed"),
]

TIMEOUT_S = 300
STATES = 16


@pytest.fixture
def scenario(tmp_path):
    return made_in(tmp_path / "mine")


@pytest.fixture
def hosts(tmp_path):
    made = {name: ProcessHost(tmp_path / name) for name in ("alpha", "beta")}
    for host in made.values():
        make_ready(host)
    return made


@contextlib.contextmanager
def fleet_of(hosts):
    told = [HostSettings(name=name, address=name, room=0) for name in hosts]
    version = make_wheels().digest
    with Fleet(told, version, remote_of=lambda h: hosts[h.name], silence_s=TIMEOUT_S) as fleet:
        yield fleet


def run(hosts, scenario, results):
    with fleet_of(hosts) as fleet:
        (done,) = run_scenarios(
            [scenario], seed=7, trials=1, results=results, run_of=partial(FleetRun, fleet)
        ).runs
    return done


def accounts(done):
    return {host.name: (host.state, host.reason) for host in done.fleet.hosts}


def replaced(host):
    """The program that was carried there is another one now: it forgets something else."""
    (path,) = host.root.glob("carried/*/files/forgets")
    path.write_text("forgets=2\n")


def test_two_hosts_find_exactly_what_a_program_loses(tmp_path, hosts, scenario):
    done = run(hosts, scenario, tmp_path / "results")
    keeps, forgets = done.cells
    assert accounts(done) == dict.fromkeys(hosts, ("took-part", ""))
    assert keeps.verdict is Verdict.SAFE, keeps.reasons
    assert {(one.kind.value, one.verdict) for one in keeps.controls} == {("no-sync", Verdict.LOSSY)}
    assert forgets.verdict is Verdict.LOSSY
    assert [trial.lost_lsns for trial in forgets.trials] == [(LsnRange(FORGOTTEN, FORGOTTEN),)]
    for host in hosts.values():
        assert host.made
        assert len(list(host.root.glob("carried/*"))) == 2  # the program and its root, once

    trial = next(one for one in ResultDir(Path(done.result_directory)).trials() if one.kept)
    record = trial.read_record()
    wanted = ExploreRequest(budget=Budget(states=STATES), engine="uml", confirm=False)
    with fleet_of(hosts) as fleet:
        found = explore_on(fleet, trial, wanted, on_event=lambda _: None)
    assert record.cell == "forgets"
    assert found.verdict is Verdict.LOSSY
    lost = {one for finding in found.findings for one in finding.lsns}
    assert lost == {LsnRange(FORGOTTEN, FORGOTTEN)}, found.findings

    beta = hosts["beta"]
    replaced(beta)
    beta.made.clear()
    with pytest.raises(HostError, match="no host of the fleet can take part") as error:
        run({"beta": beta}, scenario, tmp_path / "again")
    assert f"program {scenario.parent / 'program'} has digest " in str(error.value)
    assert "was carried there" in str(error.value)
    assert beta.made == []
