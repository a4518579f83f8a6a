# SPDX-License-Identifier: Apache-2.0
"""A real scheduler and workers on loopback: hostile ones, some that die, and whole runs.

Nothing of what a worker sends runs in the controller or in the dispatcher, or gets out of the
sandbox.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest
from cluster_workers import GO, worker
from fake_machine import FAKE
from far_runs import Lost
from hosts_here import two_cells

from powercut.campaign.run import RunOptions
from powercut.campaign.runner import resume_run, run_scenarios
from powercut.cluster import engine as engines
from powercut.cluster.engine import Address, CallFailed, Engine, EngineLost
from powercut.cluster.local import begin, running, scheduler
from powercut.cluster.node import Node, new_pem
from powercut.cluster.run import ClusterRun
from powercut.model.errors import HostError, UsageError
from powercut.model.verdict import Verdict
from powercut.paths import PACKAGE
from powercut.sandbox.apart import start_apart
from powercut.sandbox.confined import sandboxes
from powercut.scenario.load import parse_scenario
from powercut.scenario.machines import MACHINES

SUPPORT = Path(__file__).parents[2] / "support"
TIMEOUT_S = 120
ATTACKS = ("result", "list", "exception", "cause", "bytes", "large")

pytest.importorskip("distributed")
if sandboxes().bubblewrap:
    pytest.skip(f"no bubblewrap: {sandboxes().bubblewrap}", allow_module_level=True)


@pytest.fixture(scope="module")
def address():
    with scheduler() as made:
        yield made


@pytest.fixture(scope="module")
def hostile(address, tmp_path_factory):
    with worker(address, "hostile", "hostile", tmp_path_factory.mktemp("hostile")):
        yield address


def without_sandbox(module, words, *, pass_fds):
    environment = {**os.environ, "PYTHONPATH": f"{PACKAGE.parent}:{SUPPORT}"}
    return subprocess.Popen(
        [sys.executable, "-m", module, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        pass_fds=pass_fds,
    )


def naive_in_sandbox(_module, words, **more):
    # Its module and what harm it imports are shown, or the attack would fail for want of them.
    return start_apart("naive_dispatcher", words, reads=[SUPPORT], paths=[SUPPORT], **more)


def naive_without_sandbox(_module, words, **more):
    return without_sandbox("naive_dispatcher", words, **more)


def attack(address, marker):
    """The answers to all attacks, or what became of the engine."""
    text = f"{marker}\n{os.getpid()}"
    with Engine(address) as engine:
        (one,) = engine.workers
        for call in ATTACKS:
            with contextlib.suppress(CallFailed):
                engine.call(call, text, [one.address]).result(TIMEOUT_S)
                pytest.fail(f"{call} got through")
        return engine.call("echo", "after", [one.address]).result(TIMEOUT_S).text


def test_nothing_that_a_worker_returns_or_raises_is_rebuilt(hostile, tmp_path, monkeypatch):
    """The first wall alone: without the sandbox, no harm is done in the dispatcher either."""
    monkeypatch.setattr(engines, "start_apart", without_sandbox)
    assert attack(hostile, tmp_path / "marker") == "after"
    assert not (tmp_path / "marker").exists()


def test_a_dispatcher_that_is_taken_over_reaches_no_file_and_no_process(
    hostile, tmp_path, monkeypatch
):
    """The second wall alone: a dispatcher that unpickles all is in the sandbox."""
    monkeypatch.setattr(engines, "start_apart", naive_in_sandbox)
    with contextlib.suppress(EngineLost, pytest.fail.Exception):
        attack(hostile, tmp_path / "marker")
    assert not (tmp_path / "marker").exists()


def test_the_attack_does_harm_where_neither_wall_stands(hostile, tmp_path, monkeypatch):
    """So the two tests above show something."""
    monkeypatch.setattr(engines, "start_apart", naive_without_sandbox)
    monkeypatch.setattr(os, "getpid", lambda: 2**22 + 1)  # of no process: it would be ended
    with contextlib.suppress(EngineLost, pytest.fail.Exception):
        attack(hostile, tmp_path / "marker")
    assert (tmp_path / "marker").exists()


def test_both_walls_and_the_engine_goes_on(hostile, tmp_path):
    assert attack(hostile, tmp_path / "marker") == "after"
    assert not (tmp_path / "marker").exists()


def test_an_engine_makes_no_file_that_a_killed_controller_would_leave(
    address, tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Engine(address):
        assert not list(tmp_path.iterdir())


STRANGE = """
import os, socket, sys
line = socket.socket(fileno=int(sys.argv[1]))
socket.send_fds(line, [b"+"], [])
socket.send_fds(line, [b"+"], [os.open(os.devnull, os.O_RDONLY)])
"""


def test_a_dispatcher_that_sends_what_is_no_socket_is_gone(address, monkeypatch):
    argv = [sys.executable, "-c", STRANGE]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}

    def strange(_module, words, *, pass_fds):
        return subprocess.Popen([*argv, *words], pass_fds=pass_fds, **pipes)

    monkeypatch.setattr(engines, "start_apart", strange)
    with pytest.raises(EngineLost, match="the dispatcher has ended"):
        Engine(address)


def test_what_workers_there_are_may_still_be_said_when_it_is_lost(address):
    """By the dispatcher, while another thread finds that it has ended."""
    with Engine(address) as engine:
        news = engine.news
        engine._lose("the dispatcher has ended")
        assert news.done()
        engine._take(engines._Workers(workers=()))
        with pytest.raises(EngineLost, match="the dispatcher has ended"):
            _ = engine.workers


def test_nobody_without_the_certificate_is_let_in(address):
    other = Address(address.protocol, address.host, address.port, new_pem())
    with pytest.raises(EngineLost):
        Engine(other)


@pytest.mark.parametrize("text", ["tcp://", "http://h:1", "tcp://h", "tcp://h:x", "ssh://h:22"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(UsageError, match="not the address of a Dask scheduler"):
        Address.parse(text)


# --- whole runs ------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _table(monkeypatch):
    monkeypatch.setitem(MACHINES, "fake", FAKE)
    monkeypatch.setattr("powercut.cluster.run.ROOM", 0)
    monkeypatch.setattr("powercut.cluster.roster.RETURN_S", 1.0)
    monkeypatch.setattr("powercut.campaign.runner.ready_rig", fake_rig)


def fake_rig(*_):
    from fake_machine import FakeBackend

    from powercut.paths import CACHE
    from powercut.rig.rig import Rig

    return Rig(CACHE, FakeBackend())


def run(address, results, *, trials=2, on_event=lambda _: None):
    with Engine(address) as engine:
        return run_scenarios(
            [parse_scenario(two_cells("far", trials), Path("far.yaml"))],
            seed=7,
            results=results,
            run_of=partial(ClusterRun, engine),
            on_event=on_event,
        ).runs[0]


def states(done):
    return {host.name: host.state for host in done.fleet.hosts}


@pytest.mark.nightly
def test_a_worker_that_dies_at_its_trial_is_named_and_the_run_ends(tmp_path):
    lost = Lost("mad")

    def heard(event):
        lost.heard(event)
        if lost.is_set():
            (tmp_path / "alpha" / GO).touch()

    with (
        scheduler() as address,
        worker(address, "alpha", "patient", tmp_path / "alpha"),
        worker(address, "mad", "mad", tmp_path / "mad"),
    ):
        done = run(address, tmp_path / "results", on_event=heard)
    assert [cell.verdict for cell in done.cells] == [Verdict.SAFE, Verdict.LOSSY]
    assert states(done) == {"alpha": "took-part", "mad": "lost"}


def own_scheduler(pem, port=0):
    process = start_apart("powercut.cluster.node", [], network=True)
    ending = running(process)
    ending.__enter__()
    text = begin(process, Node(pem=pem, port=port))
    return process, ending, Address.parse(text, pem)


@pytest.mark.nightly
def test_a_run_whose_scheduler_was_killed_is_resumed_on_another(tmp_path, monkeypatch):
    pem = new_pem()
    process, ending, address = own_scheduler(pem)
    results = tmp_path / "results"
    submit = Engine.call

    def call(self, name, *args, **more):
        if name == "trials":
            process.kill()
        return submit(self, name, *args, **more)

    monkeypatch.setattr(Engine, "call", call)
    with (
        worker(address, "alpha", "stuck", tmp_path / "alpha"),
        pytest.raises(HostError, match="cannot be reached"),
    ):
        run(address, results)
    monkeypatch.setattr(Engine, "call", submit)
    ending.__exit__(None, None, None)
    directory = (results / "far" / "latest").resolve()
    with (
        scheduler() as address,
        worker(address, "alpha", "fake", tmp_path / "alpha"),
        Engine(address) as engine,
    ):
        done = resume_run(directory, RunOptions(run_of=partial(ClusterRun, engine)), fake_rig())
    assert [cell.verdict for cell in done.cells] == [Verdict.SAFE, Verdict.LOSSY]
