# SPDX-License-Identifier: Apache-2.0
"""Explorations on three hosts come to what one comes to; what is wrong with a host is planted.

The recordings are real ones, of the fake machine, and so are the workers, in threads of this
process.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner
from fake_machine import FAKE, FakeBackend
from far_runs import Lost
from hosts_here import ClusterHere, EngineHere

from powercut.cli.commands import cli
from powercut.cluster.explore import explore_on
from powercut.explore.explorer import explore
from powercut.explore.request import Budget, ExploreRequest
from powercut.model.errors import HostError, UsageError
from powercut.model.verdict import Verdict
from powercut.paths import CACHE
from powercut.rig.engine_shelf import EngineShelf
from powercut.rig.rig import Rig
from powercut.rig.run_id import run_id_of
from powercut.scenario.load import expand, parse_scenario
from powercut.scenario.machines import MACHINES
from powercut.store.exploration import read_exploration
from powercut.store.fleet import FleetAccount
from powercut.store.layout import ResultDir
from powercut.trial.job import TrialJob
from powercut.trial.record import record_trial

NAMES = ("alpha", "beta", "gamma")
TIMEOUT_S = 120
STATES = 64
BATCH = 4
WANTED = ExploreRequest(budget=Budget(states=STATES), seed=3)
SCENARIO = """powercut: 1
name: far
machine: {backend: fake}
filesystem: {type: raw}
disk: {size: 4MiB, flush_latency: 50ms, fua_latency: 50ms}
workload: {layout: raw, record: 512, capacity: 2MiB}
explore: {budget: "off"}
cut: {trigger: {acks: 10}}
trials: 1
cells:
  - {name: honest}
  - {name: lying, disk.flush: ignored, disk.fua: ignored, expect: lossy}
"""


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """One of an honest disk, one of a lying one."""
    made = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MACHINES, "fake", FAKE)
        plan = expand(parse_scenario(SCENARIO, Path("far.yaml")), seed=7, trials=1)
        run = ResultDir(tmp_path_factory.mktemp("run"))
        rig = Rig(CACHE, FakeBackend())
        rig.prepare(plan)
        for cell in plan.cells:
            (trial,) = cell.trials
            made[cell.name] = run.trial(cell.name, trial.number)
            job = TrialJob("far", cell.name, cell.parameters, trial, run_id_of(trial.seed))
            record_trial(rig, job, made[cell.name], lambda _: None, EngineShelf())
            made[cell.name].pack()
        yield made


@pytest.fixture
def hosts(tmp_path, monkeypatch):
    monkeypatch.setattr("powercut.cluster.explore.BATCH", BATCH)
    monkeypatch.setattr("powercut.cluster.roster.RETURN_S", 0.0)
    return {
        name: ClusterHere(tmp_path / name, lambda _: Rig(CACHE, FakeBackend())) for name in NAMES
    }


def on(hosts, trial, wanted=WANTED, *, on_event=lambda _: None):
    with EngineHere(hosts) as engine:
        return explore_on(engine, trial, wanted, on_event=on_event)


class Alone:
    """No other host: the workers of this one judge the same states."""

    account = FleetAccount()

    def over(self, work, own):
        return own


def comparable(result):
    """All but what took how long, and who did it."""
    return result.model_dump(
        exclude={"fleet", "seconds", "seconds_in_all", "processor_seconds", "jobs", "engine_boots"}
    )


def states(result):
    return {host.name: host.state for host in result.fleet.hosts}


def reason(result, name):
    return next(host.reason for host in result.fleet.hosts if host.name == name)


def after_all_others(hosts, name, change, until=None):
    """`name` gets a part of the work: the others answer once it has said `change`d words, or once
    `until` is set.
    """
    said = threading.Event()

    def mine(kind, body):
        if kind == "judged":
            said.set()
        return change(kind, body)

    def wait(kind, body):
        assert kind != "judged" or (until or said).wait(TIMEOUT_S)
        return body

    for other, host in hosts.items():
        host.before = mine if other == name else wait


@pytest.mark.parametrize(("cell", "verdict"), [("honest", Verdict.SAFE), ("lying", Verdict.LOSSY)])
def test_three_hosts_come_to_exactly_what_one_comes_to(hosts, recordings, cell, verdict):
    trial = recordings[cell]
    alone = on({"alpha": hosts["alpha"]}, trial)
    three = on(hosts, trial)
    assert three.verdict is verdict
    assert comparable(three) == comparable(alone)
    assert states(three) == dict.fromkeys(NAMES, "took-part")
    batches = -(-three.coverage.distinct // BATCH)
    assert batches > len(NAMES)
    assert sum(host.trials for host in three.fleet.hosts) == batches
    here = explore(trial, WANTED, keep=False, spread=Alone())
    assert here.coverage.by_policy == three.coverage.by_policy
    assert (here.verdict, here.findings) == (three.verdict, three.findings)


def dies(kind, body):
    if kind == "judged":
        raise ConnectionError
    return body


@pytest.mark.nightly
def test_a_host_that_dies_is_named_and_its_batches_are_judged_elsewhere(hosts, recordings):
    expected = on({"alpha": hosts["alpha"]}, recordings["lying"])
    lost = Lost("beta")
    after_all_others(hosts, "beta", dies, until=lost)
    done = on(hosts, recordings["lying"], on_event=lost.heard)
    assert comparable(done) == comparable(expected)
    assert states(done) == {"alpha": "took-part", "beta": "lost", "gamma": "took-part"}
    assert "its worker ended" in reason(done, "beta")


def calls_losses_safe(kind, body):
    if kind == "judged":
        body["states"] = [{**state, "findings": []} for state in body["states"]]
    return body


def makes_losses_up(kind, body):
    if kind == "judged":
        lost = {"kind": "lost", "verdict": "lossy", "message": "gone", "lsns": [[1, 2]]}
        lost["lsns"] = [{"first": 1, "last": 2}]
        body["states"] = [{**state, "findings": [lost]} for state in body["states"]]
    return body


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("cell", "lie"), [("lying", calls_losses_safe), ("honest", makes_losses_up)]
)
def test_a_host_that_lies_is_found_out_and_nothing_of_it_counts(hosts, recordings, cell, lie):
    expected = on({"alpha": hosts["alpha"]}, recordings[cell])
    after_all_others(hosts, "gamma", lie)
    done = on(hosts, recordings[cell])
    assert states(done)["gamma"] == "distrusted"
    assert "judged here: " in reason(done, "gamma")
    assert comparable(done) == comparable(expected)
    assert next(host.trials for host in done.fleet.hosts if host.name == "gamma") == 0


def test_without_a_host_nothing_is_said(hosts, recordings):
    for host in hosts.values():
        host.before = dies
    with pytest.raises(HostError, match="no host of the cluster is left"):
        on(hosts, recordings["honest"])


def test_a_changed_recording_is_not_explored_there(hosts, recordings, monkeypatch):
    for host in hosts.values():
        monkeypatch.setattr(host, "answer", spoiling(host))
    with pytest.raises(HostError, match="no host of the cluster can take part"):
        on(hosts, recordings["honest"])


def spoiling(host):
    honest = host.answer

    def answer(call, text):
        if call == "hello":
            for path in host.root.glob("recordings/*/base.img"):
                path.write_bytes(path.read_bytes()[:-1] + b"?")
        return honest(call, text)

    return answer


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"budget": Budget(seconds=10)}, "a budget of time has no meaning on many hosts"),
        ({"after": 4}, "second cuts"),
        ({"atomic_unit": 4096}, "--atomic-unit"),
    ],
)
def test_what_a_fleet_cannot_explore_is_refused_before_anything_is_done(
    hosts, recordings, change, words
):
    wanted = ExploreRequest(**{"budget": Budget(states=9), **change})
    with pytest.raises(UsageError, match=words) as error:
        on(hosts, recordings["honest"], wanted)
    assert error.value.hint


# --- the command ---------------------------------------------------------------------------


@pytest.mark.nightly
def test_the_command_names_the_hosts_and_what_was_judged_again(
    hosts, recordings, tmp_path, monkeypatch
):
    @contextlib.contextmanager
    def engine_of(_cluster, _on_event):
        with EngineHere(hosts) as engine:
            yield engine

    monkeypatch.setattr("powercut.cluster.start.engine_of", engine_of)
    monkeypatch.setitem(MACHINES, "fake", FAKE)
    trial = str(recordings["lying"].path)
    argv = ["explore", trial, "--cluster", "local", "--budget", "32"]
    argv += ["--jobs", "1"]  # here: other processes know no fake machine
    done = CliRunner().invoke(cli, argv, standalone_mode=False, env={"COLUMNS": "100"})
    assert done.exception is None
    assert done.return_value == 0  # the cell is expected to be lossy
    words = " ".join(done.output.split())
    assert "judged these states; all " in words
    assert "states with a loss were judged again here" in words
    for name in NAMES:  # a fast one may leave nothing to another
        assert f"│ {name} │ took part │" in words


def test_the_command_refuses_before_any_host_is_asked(recordings, tmp_path, monkeypatch):
    monkeypatch.setitem(MACHINES, "fake", FAKE)
    trial = str(recordings["lying"].path)
    argv = ["explore", trial, "--cluster", str(tmp_path / "none")]
    done = CliRunner().invoke(cli, argv, standalone_mode=False)
    assert isinstance(done.exception, UsageError)
    assert "a budget of time has no meaning on many hosts" in str(done.exception)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("cell", "says"), [("lying", "✗ LOSSY far, lying"), ("honest", "✓ SAFE far, honest")]
)
def test_the_command_prints_the_verdict_on_the_recording(recordings, monkeypatch, cell, says):
    """Of a disk that lies, states with everything that was issued lose nothing."""
    monkeypatch.setitem(MACHINES, "fake", FAKE)
    argv = ["explore", str(recordings[cell].path), "--policy", "everything-issued"]
    argv += ["--at", "completion", "--budget", "8", "--jobs", "1"]
    done = CliRunner().invoke(cli, argv, standalone_mode=False, env={"COLUMNS": "100"})
    assert done.exception is None
    words = " ".join(done.output.split())
    assert (done.return_value, says in words) == (0, True), done.output
    explored = read_exploration(recordings[cell])
    assert explored is not None
    assert explored.verdict is Verdict.SAFE
    assert ("The states alone are SAFE" in words) == (cell == "lying")
