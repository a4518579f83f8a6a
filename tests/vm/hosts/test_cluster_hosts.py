# SPDX-License-Identifier: Apache-2.0
"""Hosts with real ssh servers in network namespaces; one is killed at work.

Another one shows a host key that is not the known one.  Trials are those of QEMU guests.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from pathlib import Path

import network_hosts
import pytest
from carried_program import SCENARIO as CARRIED
from carried_program import made_in
from click.testing import CliRunner
from network_hosts import NetworkHost, hosts_yaml, make_ready, openssh_server
from ssh_hosts import Home, host_key

from powercut.campaign.runner import run_scenarios
from powercut.campaign.verify import verify
from powercut.cli.commands import cli
from powercut.cluster.explore import BATCH, explore_on
from powercut.cluster.start import engine_of, fetch_recordings, runs_on
from powercut.explore.explorer import explore
from powercut.explore.request import Budget, ExploreRequest
from powercut.model.events import Notice, TrialFinished
from powercut.model.verdict import Verdict
from powercut.scenario.load import parse_scenario
from powercut.store.layout import ResultDir
from powercut.store.place import read_place

pytestmark = pytest.mark.campaign

TIMEOUT_S = 120
STATES = 256
SCENARIO = """powercut: 1
name: hosts
filesystem: {type: ext4}
explore: {budget: 8}
cut: {trigger: {acks: 20}}
trials: 2
cells:
  - {name: honest}
  - {name: lying, disk.flush: ignored, disk.fua: ignored, expect: lossy}
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    if why := network_hosts.missing():
        pytest.skip(why)
    made = Home.make(tmp_path / "home")
    monkeypatch.setenv("HOME", str(made.path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return made


@pytest.fixture
def hosts(tmp_path, home):
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(NetworkHost(tmp_path, home, number)) for number in (1, 2, 3, 4)]
        for host in made:
            make_ready(host)
        (tmp_path / "other").mkdir()
        made[3].public = host_key(tmp_path / "other")[1]
        yield made


def workers_in(host: NetworkHost) -> list[str]:
    """The processes in it besides its ssh server."""
    mine = Path(f"/proc/{host.init}/ns/pid").readlink()
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (path / "cmdline").read_bytes().split(b"\0")
            if (path / "ns" / "pid").readlink() == mine and b"dropbear" not in words[0]:
                found.append(b" ".join(words).decode(errors="replace"))
    return found


def test_a_host_dies_at_work_and_two_others_come_to_the_verdicts(tmp_path, home, hosts):
    path = hosts_yaml(tmp_path, home, hosts, room="16 MiB")
    events, lost = [], threading.Event()

    def hear(event):
        events.append(event)
        if isinstance(event, Notice) and "h2 takes no more part" in event.text:
            lost.set()
        if isinstance(event, TrialFinished):
            hosts[1].kill()
            assert lost.wait(TIMEOUT_S)  # else the others might end before it is missed

    with runs_on(str(path), hear) as run_of:
        (done,) = run_scenarios(
            [parse_scenario(SCENARIO, Path("hosts.yaml"))],
            seed=7,
            results=tmp_path / "results",
            run_of=run_of,
            on_event=hear,
        ).runs
    honest, lying = done.cells
    assert (honest.verdict, lying.verdict) == (Verdict.SAFE, Verdict.LOSSY), honest.reasons
    assert (len(honest.trials), len(lying.trials)) == (2, 2)
    told = {host.name: host for host in done.fleet.hosts}
    assert {name: host.state for name, host in told.items()} == {
        "h1": "took-part",
        "h2": "lost",
        "h3": "took-part",
    }
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert any("h4" in n and "has another host key than known_hosts says" in n for n in notices)
    trials = ResultDir(Path(done.result_directory)).trials()
    assert {read_place(trial.path).host for trial in trials} <= {"h1", "h3"}
    end = time.monotonic() + TIMEOUT_S
    while left := [*workers_in(hosts[0]), *workers_in(hosts[2])]:
        assert time.monotonic() < end, left

    missing = sum(not trial.kept for trial in trials)
    hosts[1].close()
    with engine_of(str(path), lambda _: None) as engine:
        came, problems = fetch_recordings(Path(done.result_directory), engine)
    assert problems == ()
    assert came == missing
    again = verify(Path(done.result_directory))
    assert [cell.verdict for cell in again.cells] == [Verdict.SAFE, Verdict.LOSSY]


def test_states_on_dropbear_and_openssh_come_to_what_one_host_comes_to(tmp_path, home):
    """Real workers, two processes each: what is judged there is judged here without them."""
    (done,) = run_scenarios(
        [parse_scenario(SCENARIO.replace("trials: 2", "trials: 1"), Path("hosts.yaml"))],
        seed=7,
        results=tmp_path / "results",
    ).runs
    trials = {
        trial.read_record().cell: trial
        for trial in ResultDir(Path(done.result_directory)).trials()
        if trial.path.parts[-3] == "cells"
    }
    wanted = ExploreRequest(budget=Budget(states=STATES), engine="uml", confirm=False)
    with contextlib.ExitStack() as stack:
        server = openssh_server(tmp_path)
        hosts = [
            stack.enter_context(NetworkHost(tmp_path, home, number, openssh=openssh))
            for number, openssh in ((5, None), (6, server))
        ]
        for host in hosts:
            make_ready(host)
        path = hosts_yaml(tmp_path, home, hosts, room="16 MiB", jobs=2)
        with engine_of(str(path), lambda _: None) as engine:
            found = {
                cell: explore_on(engine, trial, wanted, on_event=lambda _: None)
                for cell, trial in trials.items()
            }
        end = time.monotonic() + TIMEOUT_S
        while left := [line for host in hosts for line in workers_in(host) if "powercut" in line]:
            assert time.monotonic() < end, left
    assert found["honest"].verdict is Verdict.SAFE, found["honest"].findings
    assert found["lying"].verdict is Verdict.LOSSY
    for cell, result in found.items():
        assert [host.state for host in result.fleet.hosts] == ["took-part"] * 2, result.fleet
        assert sum(host.trials for host in result.fleet.hosts) == -(
            -result.coverage.distinct // BATCH
        )
        here = explore(trials[cell], wanted, keep=False)
        assert (here.verdict, here.coverage.by_policy, here.coverage.lossy) == (
            result.verdict,
            result.coverage.by_policy,
            result.coverage.lossy,
        )


IN_GUEST = """\
  - name: guest
    workload.where: uml
    workload.at_most: 2min
    workload.state_timeout: 5min
    controls: [lying-disk]
    deadline: 5min
"""


def test_programs_are_carried_over_ssh_and_certified(tmp_path, home):
    """In a virtual machine and without one; the certificate names both hosts."""
    scenario = made_in(tmp_path / "mine", CARRIED + IN_GUEST)
    with contextlib.ExitStack() as stack:
        server = openssh_server(tmp_path)
        hosts = [
            stack.enter_context(NetworkHost(tmp_path, home, number, openssh=openssh))
            for number, openssh in ((7, None), (8, server))
        ]
        for host in hosts:
            make_ready(host)
        path = hosts_yaml(tmp_path, home, hosts, room="16 MiB")
        argv = ["certify", str(scenario), "--no-cost", "--cluster", str(path)]
        done = CliRunner().invoke(cli, [*argv, "--results", str(tmp_path / "results")])
        assert done.exit_code == 0, done.output
        (found,) = (tmp_path / "results").glob("certify/*/2*/certificate.json")
        certificate = json.loads(found.read_text())
        verdicts = {cell["cell"]: cell["verdict"] for cell in certificate["cells"]}
        assert verdicts == {"keeps": "safe", "forgets": "lossy", "guest": "safe"}
        page = found.with_name("certificate.html").read_text()
        assert "Which hosts made it" in page
        assert all(host.name in page for host in hosts)
        for host in hosts:
            parts = list((host.home / ".cache/powercut-cluster/carried").iterdir())
            assert len(parts) == 4, parts
        end = time.monotonic() + TIMEOUT_S
        while left := [line for host in hosts for line in workers_in(host) if "powercut" in line]:
            assert time.monotonic() < end, left
