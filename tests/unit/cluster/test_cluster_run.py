# SPDX-License-Identifier: Apache-2.0
"""Runs on three hosts: what goes wrong with one of them is named, and nothing is lost."""

from __future__ import annotations

import shutil
import threading
from functools import partial
from pathlib import Path

import pytest
from far_runs import (
    NAMES,
    SCENARIO,
    TIMEOUT_S,
    TRIALS,
    Lost,
    first,
    folders,
    honestly,
    hosts_in,
    reason,
    run,
    states,
)
from hosts_here import EngineHere

from powercut.campaign.run import RunOptions
from powercut.campaign.runner import resume_run, run_scenarios
from powercut.campaign.verify import verify
from powercut.cluster.run import ClusterRun
from powercut.model.errors import HostError, UsageError
from powercut.model.events import Notice
from powercut.model.verdict import Verdict
from powercut.scenario.load import parse_scenario
from powercut.store.layout import ResultDir
from powercut.store.place import read_place

pytestmark = pytest.mark.usefixtures("fake_machine", "no_patience")


def test_three_hosts_come_to_the_verdicts_of_one(tmp_path):
    hosts = hosts_in(tmp_path, threads=2)
    alone = run({"alpha": hosts["alpha"]}, tmp_path / "alone")
    done = run(hosts, tmp_path)
    for made in (alone, done):
        honest, lying = made.cells
        assert (honest.verdict, lying.verdict) == (Verdict.SAFE, Verdict.LOSSY), honest.reasons
        assert (len(honest.trials), len(lying.trials)) == (TRIALS, TRIALS)
    assert [t.seed for c in done.cells for t in c.trials] == [
        t.seed for c in alone.cells for t in c.trials
    ]
    assert states(done) == dict.fromkeys(NAMES, "took-part")
    assert sum(host.trials for host in done.fleet.hosts) == len(folders(done))
    assert (done.fleet.claims, done.fleet.losses_judged) == (TRIALS, TRIALS)
    assert 1 <= done.fleet.claims_judged <= 3
    assert done.exit_status == 0
    for trial in folders(done):
        place = read_place(trial.path)
        assert trial.kept is place.judged_here
        assert (hosts[place.host].root / place.folder / "manifest.json").exists()


def test_each_host_makes_the_controls_of_its_cells_itself(hosts, tmp_path):
    done = run(hosts, tmp_path, text=SCENARIO.partition("cells:")[0])
    controls = {}
    for trial in folders(done):
        if trial.path.parts[-3] == "controls":
            controls.setdefault(read_place(trial.path).host, set()).add(trial.path.parent.name)
    by_host = {host.name for host in done.fleet.hosts if host.trials}
    assert set(controls) == by_host
    for made in controls.values():
        assert made == {"lying-disk-far", "no-sync-far"}


def die_after(count):
    made = []

    def before(kind, body):
        if kind == "done":
            made.append(body)
            if len(made) > count:
                raise ConnectionError
        return body

    return before


def test_a_host_that_dies_is_named_and_its_trials_are_made_elsewhere(hosts, tmp_path):
    lost = Lost("beta")
    first(hosts, "beta", die_after(1), until=lost)
    done = run(hosts, tmp_path, on_event=lost.heard)
    assert [cell.verdict for cell in done.cells] == [Verdict.SAFE, Verdict.LOSSY]
    assert [len(cell.trials) for cell in done.cells] == [TRIALS, TRIALS]
    assert states(done) == {"alpha": "took-part", "beta": "lost", "gamma": "took-part"}
    assert "its worker ended" in reason(done, "beta")
    for trial in folders(done):
        place = read_place(trial.path)
        assert place.host != "beta" or place.judged_here


@pytest.mark.nightly
def test_a_host_that_is_still_being_asked_takes_over_from_the_last_one(
    hosts, tmp_path, monkeypatch
):
    monkeypatch.setattr("powercut.cluster.roster.TOGETHER_S", 0.0)
    lost = threading.Event()

    def late(kind, body):
        assert kind != "hello" or lost.wait(TIMEOUT_S)
        return body

    def hear(event):
        if isinstance(event, Notice) and event.text.startswith("alpha takes no more part"):
            lost.set()

    hosts["alpha"].before, hosts["beta"].before = die_after(0), late
    two = {name: hosts[name] for name in ("alpha", "beta")}
    done = run(two, tmp_path, on_event=hear)
    assert [cell.verdict for cell in done.cells] == [Verdict.SAFE, Verdict.LOSSY]
    assert states(done) == {"alpha": "lost", "beta": "took-part"}


def other(name, value):
    def before(kind, body):
        if kind == "hello":
            body = {**body, name: value}
        return body

    return before


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("processor", "Z80", "its processor is Z80, and "),
        ("code", "f" * 64, "its powercut has files of digest ffffffffffffffff"),
        (
            "components",
            {"components": [], "cells": {}},
            "hypervisor is missing there, and fake 1 here",
        ),
    ],
)
def test_a_host_that_is_not_as_this_one_is_refused_by_name(hosts, tmp_path, name, value, words):
    hosts["beta"].before = other(name, value)
    two = {name: hosts[name] for name in ("alpha", "beta")}
    done = run(two, tmp_path, text=SCENARIO.replace(f"trials: {TRIALS}", "trials: 1"))
    assert states(done) == {"alpha": "took-part", "beta": "refused"}
    assert words in reason(done, "beta")
    assert hosts["beta"].made == []
    assert done.exit_status == 0


def full(kind, body):
    if kind == "done":
        raise AssertionError("a host without room makes nothing")
    return body


@pytest.mark.nightly
def test_a_host_without_room_is_named_and_nothing_is_lost(hosts, tmp_path, monkeypatch):
    first(hosts, "beta", full, when=lambda kind, _: kind == "trouble")
    usage = shutil.disk_usage

    def free(folder):
        seen = usage(folder)
        return seen._replace(free=0) if "beta" in Path(folder).parts else seen

    monkeypatch.setattr("powercut.cluster.host.shutil.disk_usage", free)
    monkeypatch.setattr("powercut.cluster.run.ROOM", 1 << 20)
    done = run(hosts, tmp_path)
    assert states(done) == {"alpha": "took-part", "beta": "lost", "gamma": "took-part"}
    assert "MiB are free" in reason(done, "beta")
    assert done.exit_status == 0


@pytest.mark.nightly
def test_what_a_test_raises_in_a_worker_ends_the_run(hosts, tmp_path):
    first(hosts, "beta", full)
    with pytest.raises(AssertionError, match="a host without room makes nothing"):
        run(hosts, tmp_path)


def test_without_a_host_nothing_is_said_and_the_run_can_go_on(hosts, tmp_path):
    for host in hosts.values():
        host.before = die_after(2)
    with pytest.raises(HostError, match="no host of the cluster is left") as error:
        run(hosts, tmp_path)
    assert "--resume" in error.value.hint
    directory = (tmp_path / "results" / "far" / "latest").resolve()
    assert not ResultDir(directory).ended
    for host in hosts.values():
        host.before = honestly
    with EngineHere(hosts) as engine:
        done = resume_run(directory, RunOptions(run_of=partial(ClusterRun, engine)))
    assert [cell.verdict for cell in done.cells] == [Verdict.SAFE, Verdict.LOSSY]
    tries = [path.read_text() for host in hosts.values() for path in host.root.rglob("*.tries")]
    assert {text.count("SAFE") + text.count("LOSSY") for text in tries} == {1}


@pytest.mark.nightly
def test_a_run_does_not_go_on_with_another_program(hosts, tmp_path, monkeypatch):
    digests = {"program_folder_sha256": "1" * 64}
    monkeypatch.setattr("powercut.cluster.own.program_digests", lambda *_: dict(digests))
    for host in hosts.values():
        host.before = die_after(0)
    with pytest.raises(HostError, match="no host of the cluster is left"):
        run(hosts, tmp_path)
    digests["program_folder_sha256"] = "2" * 64
    directory = (tmp_path / "results" / "far" / "latest").resolve()
    with (
        EngineHere(hosts) as engine,
        pytest.raises(UsageError, match=r"^honest: its program or its root has changed since"),
    ):
        resume_run(directory, RunOptions(run_of=partial(ClusterRun, engine)))


@pytest.mark.nightly
def test_all_that_was_fetched_can_be_verified(hosts, tmp_path, monkeypatch):
    monkeypatch.setattr("powercut.cluster.ledger.JUDGED_PART", 1.0)
    done = run(hosts, tmp_path)
    assert done.fleet.claims_judged == TRIALS
    again = verify(Path(done.result_directory))
    assert [cell.verdict for cell in again.cells] == [Verdict.SAFE, Verdict.LOSSY]


@pytest.mark.nightly
def test_what_was_not_fetched_is_not_verified(hosts, tmp_path):
    done = run(hosts, tmp_path)
    with pytest.raises(UsageError, match="were not fetched"):
        verify(Path(done.result_directory))


@pytest.mark.nightly
def test_a_host_that_falls_silent_is_lost(hosts, tmp_path):
    def before(kind, body):
        if kind == "done":
            hosts["beta"].seen_s = 1e6
        return None if kind == "done" else body

    first(hosts, "beta", before)
    done = run(hosts, tmp_path)
    assert states(done)["beta"] == "lost"
    assert "nothing was heard of it for 120 s" in reason(done, "beta")
    assert [cell.verdict for cell in done.cells] == [Verdict.SAFE, Verdict.LOSSY]


def test_a_trial_that_was_judged_is_not_made_again_however_often_it_is_asked_for(hosts, tmp_path):
    alpha = hosts["alpha"]
    answer, asked = alpha.answer, []

    def twice(call, text):
        if call == "trials":
            asked.append(alpha.works.answer(call, text))
        return answer(call, text)

    alpha.answer = twice
    done = run({"alpha": alpha}, tmp_path)
    assert done.exit_status == 0
    assert states(done) == {"alpha": "took-part"}
    assert len(asked) >= 2 * TRIALS


@pytest.mark.nightly
def test_a_worker_that_is_started_again_goes_on(hosts, tmp_path, monkeypatch):
    monkeypatch.setattr("powercut.cluster.roster.RETURN_S", float(TIMEOUT_S))
    alpha = hosts["alpha"]
    engine = EngineHere({"alpha": alpha})
    made = []

    def before(kind, body):
        made.append(kind)
        if made.count("done") == 2 and kind == "done":
            engine.restart("alpha")
            raise ConnectionError
        return body

    alpha.before = before
    with engine:
        (done,) = run_scenarios(
            [parse_scenario(SCENARIO, Path("far.yaml"))],
            seed=7,
            results=tmp_path / "results",
            run_of=partial(ClusterRun, engine, cluster="tcp://head:8786"),
        ).runs
    assert done.reproduce.endswith(" --seed 7 --cluster tcp://head:8786")
    assert states(done) == {"alpha": "took-part"}
    assert done.exit_status == 0
