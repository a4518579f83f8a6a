# SPDX-License-Identifier: Apache-2.0
"""How much faster two hosts are than one: the same trials and the same states, in turn.

Each host is a network namespace of this one with a processor of its own; ssh, workers and guests
are real.  What it prints is for docs/clusters.md, and means something on a quiet machine only:

    pytest -s -m campaign tests/vm/hosts/test_cluster_throughput.py
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from functools import partial
from pathlib import Path

import network_hosts
import pytest
from network_hosts import NetworkHost, hosts_yaml, make_ready
from ssh_hosts import Home

from powercut.campaign.runner import run_scenarios
from powercut.cluster.explore import explore_on
from powercut.cluster.run import ClusterRun
from powercut.cluster.start import engine_of
from powercut.explore.request import Budget, ExploreRequest
from powercut.model.verdict import Verdict
from powercut.scenario.load import parse_scenario
from powercut.store.layout import ResultDir

pytestmark = pytest.mark.campaign

TRIALS = 16
STATES = 4096
TURNS = 2
SCENARIO = f"""powercut: 1
name: throughput
filesystem: {{type: ext4}}
explore: {{budget: 64}}
cut: {{trigger: {{acks: 100}}}}
trials: {TRIALS}
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    if why := network_hosts.missing():
        pytest.skip(why)
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two hosts need a processor each")
    made = Home.make(tmp_path / "home")
    monkeypatch.setenv("HOME", str(made.path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return made


def on_processor(host: NetworkHost, number: int) -> None:
    """What powercut starts there runs on one processor."""
    for path in host.home.glob(".cache/powercut-cluster/versions/*/venv/bin/*"):
        program = path.with_name(f".{path.name}")
        path.rename(program)
        path.write_text(f'#!/bin/sh\nexec taskset -c {number} {program} "$@"\n')
        path.chmod(0o755)


def made_on(engine, results):
    """The trials with their controls, each judged and explored; seconds for all of them."""
    begun = time.monotonic()
    (done,) = run_scenarios(
        [parse_scenario(SCENARIO, Path("throughput.yaml"))],
        seed=7,
        results=results,
        run_of=partial(ClusterRun, engine),
    ).runs
    assert [cell.verdict for cell in done.cells] == [Verdict.SAFE], done.cells[0].reasons
    assert {host.state for host in done.fleet.hosts} == {"took-part"}
    return time.monotonic() - begun, done


def test_two_hosts_against_one(tmp_path, home, capsys):
    processors = sorted(os.sched_getaffinity(0))[:2]
    with contextlib.ExitStack() as stack:
        hosts = [stack.enter_context(NetworkHost(tmp_path, home, number)) for number in (1, 2)]
        for host, number in zip(hosts, processors, strict=True):
            make_ready(host)
            on_processor(host, number)
        engines = {}
        for count in (1, 2):
            folder = tmp_path / f"of-{count}"
            folder.mkdir()
            path = hosts_yaml(folder, home, hosts[:count], room="16 MiB")
            engines[count] = stack.enter_context(engine_of(str(path), lambda _: None))
        trials, states = {1: [], 2: []}, {1: [], 2: []}
        for turn in range(TURNS):
            for count, engine in engines.items():
                seconds, done = made_on(engine, tmp_path / f"results-{turn}-{count}")
                controls = sum(host.trials for host in done.fleet.hosts) - TRIALS
                trials[count].append((TRIALS + controls) / seconds)
                say(
                    capsys,
                    f"{count} host(s): {TRIALS} trials, {controls} controls: {seconds:.1f} s",
                )
        recording = next(one for one in ResultDir(Path(done.result_directory)).trials() if one.kept)
        wanted = ExploreRequest(budget=Budget(states=STATES), engine="uml", confirm=False)
        for _ in range(TURNS):
            for count, engine in engines.items():
                begun = time.monotonic()
                found = explore_on(engine, recording, wanted, on_event=lambda _: None)
                seconds = time.monotonic() - begun
                states[count].append(found.coverage.distinct / seconds)
                say(capsys, f"{count} host(s): {found.coverage.distinct} states: {seconds:.1f} s")
    for name, rates in (("trials and controls", trials), ("states", states)):
        one, two = (sum(rates[count]) / TURNS for count in (1, 2))
        say(capsys, f"{name} a second: {one:.2f} and {two:.2f}, {two / one:.2f} times")
    say(capsys, f"load average over a minute at the end: {os.getloadavg()[0]:.1f}")


def say(capsys, text: str) -> None:
    with capsys.disabled():
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
