# SPDX-License-Identifier: Apache-2.0
"""A run of two cells on three hosts, on the fake machine: a disk that is recorded, without a VM.

The workers are the real ones, in threads of this process.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from fake_machine import FakeBackend
from hosts_here import ClusterHere, EngineHere, two_cells

from powercut.campaign.runner import run_scenarios
from powercut.cluster.run import ClusterRun
from powercut.model.events import Notice
from powercut.paths import CACHE
from powercut.rig.rig import Rig
from powercut.scenario.load import parse_scenario
from powercut.store.layout import ResultDir

NAMES = ("alpha", "beta", "gamma")
TRIALS = 4
TIMEOUT_S = 120
SCENARIO = two_cells("far", TRIALS)


@contextmanager
def all_together():
    """No run begins before each of its hosts has a part in it, however busy this host is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("powercut.cluster.roster.TOGETHER_S", float(TIMEOUT_S))
        yield patch


def hosts_in(folder, threads=1):
    return {
        name: ClusterHere(folder / name, lambda _: Rig(CACHE, FakeBackend()), threads)
        for name in NAMES
    }


def run(hosts, tmp_path, *, text=SCENARIO, on_event=lambda _: None):
    with EngineHere(hosts) as engine:
        (done,) = run_scenarios(
            [parse_scenario(text, Path("far.yaml"))],
            seed=7,
            results=tmp_path / "results",
            run_of=partial(ClusterRun, engine),
            on_event=on_event,
        ).runs
    return done


def honestly(_kind, body):
    return body


def first(hosts, name, change, *, when=lambda kind, _: kind == "done", until=None):
    """`name` changes what it says; the others answer once it has said what `when` is true of, or
    once `until` is set.
    """
    said = threading.Event()

    def before(kind, body):
        if when(kind, body):
            said.set()
        return change(kind, body)

    for other, host in hosts.items():
        host.before = before if other == name else answers_once(until or said)


def answers_once(event):
    """What a host does that says nothing of what it has made before that is set."""

    def wait(kind, body):
        assert kind != "done" or event.wait(TIMEOUT_S)
        return body

    return wait


class Lost(threading.Event):
    """Set once a run says that it has lost a host; for `on_event`."""

    def __init__(self, name):
        super().__init__()
        self._words = f"{name} takes no more part"

    def heard(self, event):
        if isinstance(event, Notice) and event.text.startswith(self._words):
            self.set()


def of_cell(name):
    return lambda kind, body: kind == "done" and f"/cells/{name}/" in body["folder"]


def states(done):
    return {host.name: host.state for host in done.fleet.hosts}


def reason(done, name):
    return next(host.reason for host in done.fleet.hosts if host.name == name)


def folders(done):
    return list(ResultDir(Path(done.result_directory)).trials())
