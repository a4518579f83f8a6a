# SPDX-License-Identifier: Apache-2.0
"""Runs and explorations on a real Dask cluster come to what this host comes to alone.

The workers are processes of this host with the fake machine; one that is `apart` has no folder of
it, so that its recordings come back through Dask.
"""

from __future__ import annotations

import contextlib
import re
import threading
from functools import partial
from pathlib import Path

import psutil
import pytest
from dask_here import dask_here
from fake_machine import BOTH_SIDES, FakeBackend, runs_on_it
from patience import AMPLE_S

from powercut.campaign.run import RunOptions
from powercut.campaign.runner import resume_run, run_scenarios
from powercut.campaign.verify import verify
from powercut.explore.explorer import explore
from powercut.explore.request import Budget, ExploreRequest
from powercut.model.errors import DamagedRecording, HostError, UsageError
from powercut.model.events import Notice, TrialFinished
from powercut.model.verdict import Verdict
from powercut.paths import CACHE
from powercut.recording.sealed import SealedTrial
from powercut.rig.rig import Rig
from powercut.scenario.load import parse_scenario
from powercut.store import manifest
from powercut.store.layout import ResultDir
from powercut_extras.cluster import connect, worker, workers
from powercut_extras.cluster.connect import cluster_of
from powercut_extras.cluster.explore import explore_on
from powercut_extras.cluster.run import ClusterRun

SEED = 7


@pytest.fixture(autouse=True)
def _fake_machine(monkeypatch):
    runs_on_it(monkeypatch)
    monkeypatch.setattr(
        "powercut_extras.cluster.worker.ready_rig", lambda *_: Rig(CACHE, FakeBackend())
    )
    monkeypatch.setattr(workers, "_NOBODY_S", 0.0)


@contextlib.contextmanager
def clustered(folder, *faults):
    """A cluster with a worker for each of `faults`, and what reaches it."""
    with dask_here(folder, *faults) as dask, cluster_of(str(dask.file)) as cluster:
        yield dask, cluster


def run(results, cluster=None, on_event=lambda _: None, text=BOTH_SIDES):
    (done,) = run_scenarios(
        [parse_scenario(text, Path("far.yaml"))],
        seed=SEED,
        results=results,
        jobs=2,
        on_event=on_event,
        run_of=None if cluster is None else partial(ClusterRun, cluster),
    ).runs
    return done


def essence(done):
    """What of a run follows from its seed."""
    return [
        (
            cell.verdict,
            [(c.kind, c.verdict, c.behaved) for c in cell.controls],
            [(t.trial, t.seed, t.verdict, t.commits_lost == t.commits_acked) for t in cell.trials],
        )
        for cell in done.cells
    ]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The run of this host alone."""
    with pytest.MonkeyPatch.context() as patch:
        runs_on_it(patch)
        return run(tmp_path_factory.mktemp("alone"))


@pytest.mark.parametrize("fault", ["", "apart"])
def test_two_workers_come_to_the_verdicts_of_one_host(tmp_path, alone, fault):
    with clustered(tmp_path, fault, fault) as (_, cluster):
        done = run(tmp_path / "results", cluster)
    assert essence(done) == essence(alone)
    assert [cell.verdict for cell in done.cells] == [Verdict.SAFE, Verdict.LOSSY]
    folder = ResultDir(Path(done.result_directory))
    assert len(folder.trials()) == len(ResultDir(Path(alone.result_directory)).trials())
    assert all((trial.path / "evidence.pack").exists() is bool(fault) for trial in folder.trials())
    assert all(manifest.is_own(trial.path, "trial.json") for trial in folder.trials())
    assert not (folder.path / ".cluster").exists()
    assert essence(verify(folder.path)) == essence(alone)


def test_local_is_this_process(tmp_path, alone):
    with cluster_of(connect.LOCAL) as cluster, cluster_of(connect.LOCAL):
        mine = psutil.Process().net_connections()
        assert {one.laddr.ip for one in mine if one.status == psutil.CONN_LISTEN} == {"127.0.0.1"}
        done = run(tmp_path / "results", cluster)
    assert essence(done) == essence(alone)


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("processor", r"processor is another processor there, and .* here\."),
        (
            "code",
            r"powercut is [\w.]+ \(0000000000000000\) there, and [\w.]+ \([0-9a-f]{16}\) here\.",
        ),
        ("silent", r"HostError: no QEMU\."),
    ],
)
def test_one_that_is_not_as_this_host_is_named_and_takes_no_part(tmp_path, alone, fault, why):
    told = []
    with clustered(tmp_path, "", fault) as (_, cluster):
        done = run(tmp_path / "results", cluster, told.append)
        (address,) = (one for one in cluster._workers if not cluster._workers[one])
    (notice,) = {event.text for event in told if isinstance(event, Notice)}
    assert re.fullmatch(re.escape(f"{address} takes no part: ") + why, notice)
    assert essence(done) == essence(alone)


def test_what_a_worker_was_at_that_dies_is_made_again(tmp_path, alone):
    killed = threading.Event()
    with clustered(tmp_path, "", "") as (dask, cluster):

        def hear(event):
            if isinstance(event, TrialFinished) and not killed.is_set():
                killed.set()
                dask.kill(dask.workers[0])

        done = run(tmp_path / "results", cluster, hear)
    assert killed.is_set()
    assert essence(done) == essence(alone)


def test_one_that_comes_later_works_too_and_the_last_one_may_go(tmp_path, alone, monkeypatch):
    with clustered(tmp_path, "") as (dask, cluster):
        changed = threading.Event()

        def hear(event):
            if isinstance(event, TrialFinished) and not changed.is_set():
                changed.set()
                dask.add()
                dask.kill(dask.workers[0])

        monkeypatch.setattr(workers, "_NOBODY_S", AMPLE_S)
        done = run(tmp_path / "results", cluster, hear)
    assert essence(done) == essence(alone)


def test_without_one_that_is_like_it_nothing_is_made(tmp_path):
    with (
        clustered(tmp_path, "code") as (_, cluster),
        pytest.raises(HostError, match="no worker is like this host") as error,
    ):
        run(tmp_path / "results", cluster)
    assert error.value.hint.startswith("powercut run --resume ")


def test_what_comes_back_has_to_have_its_seal(tmp_path):
    with (
        clustered(tmp_path, "apart bent") as (_, cluster),
        pytest.raises(DamagedRecording, match=r"changed since it was sealed|is damaged"),
    ):
        run(tmp_path / "results", cluster)


def test_a_run_that_has_lost_its_scheduler_is_resumed_elsewhere(tmp_path, alone, monkeypatch):
    monkeypatch.setattr(connect, "_CONNECT_S", 5.0)
    with clustered(tmp_path, "") as (dask, cluster):

        def hear(event):
            if isinstance(event, TrialFinished):
                dask.kill(dask.scheduler)

        with pytest.raises(HostError, match="the scheduler is gone") as error:
            run(tmp_path / "results", cluster, hear)
    begun = tmp_path / "results/far/latest"
    assert f"--resume {begun.resolve()}" in error.value.hint
    with cluster_of(connect.LOCAL) as cluster:
        done = resume_run(begun, RunOptions(run_of=partial(ClusterRun, cluster)))
    assert essence(done) == essence(alone)


def test_no_scheduler_there(monkeypatch):
    monkeypatch.setattr(connect, "_CONNECT_S", 0.5)
    said = pytest.raises(HostError, match=r"tcp://127\.0\.0\.1:9: no Dask scheduler: ")
    with said, cluster_of("tcp://127.0.0.1:9"):
        pass


@pytest.mark.parametrize(
    ("named", "says"),
    [
        *(
            (address, f"--cluster {address}: no address of a scheduler")
            for address in (
                "foo://head:8786",
                "tcp://head",
                "tls://:8786",
                "tcp://head:x",
                "tcp://[",
            )
        ),
        ("no-such-file", "no-such-file: No such file or directory"),
        (__file__, f"{__file__}: not the scheduler file of a Dask cluster"),
    ],
)
def test_what_is_no_cluster_is_a_mistake(named, says):
    with pytest.raises(UsageError) as error, cluster_of(named):
        pass
    assert str(error.value) == says


# --- explorations ----------------------------------------------------------------------------


def explored(result):
    """What of an exploration follows from its seed."""
    coverage = result.coverage
    return (
        result.verdict,
        coverage.distinct,
        coverage.by_policy,
        coverage.lossy,
        [(found.kind, found.verdict, found.lsns) for found in result.findings],
    )


@pytest.mark.parametrize("fault", ["", "apart"])
def test_states_come_to_what_one_host_comes_to(tmp_path, alone, fault, monkeypatch):
    monkeypatch.setattr("powercut_extras.cluster.explore.BATCH", 8)
    wanted = ExploreRequest(budget=Budget(states=64), seed=3)
    folder = ResultDir(Path(alone.result_directory))
    with clustered(tmp_path, fault, fault) as (_, cluster):
        for cell, verdict in (("honest", Verdict.SAFE), ("lying", Verdict.LOSSY)):
            trial = folder.place_of(cell, 1)
            found = explore_on(cluster, trial, wanted, on_event=lambda _: None)
            assert found.verdict is verdict
            assert explored(found) == explored(explore(SealedTrial(trial), wanted, keep=False))


def test_another_recording_at_its_place_is_not_the_one(alone):
    trial = ResultDir(Path(alone.result_directory)).place_of("honest", 1)
    digest = worker.digest_of_manifest(trial)
    assert worker._recording(trial, "0" * 64, None) is None
    with pytest.raises(DamagedRecording, match="its manifest is another"):
        worker._recording(trial, "0" * 64, worker.files_of(trial))
    assert worker._recording(trial, digest, None) is trial
    worker.forget()
