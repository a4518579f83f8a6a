# SPDX-License-Identifier: Apache-2.0
"""Runs on three hosts, one of which says what is not so: that is found out, and named."""

from __future__ import annotations

import json
import threading

import pytest
from far_runs import (
    NAMES,
    SCENARIO,
    TIMEOUT_S,
    first,
    folders,
    honestly,
    of_cell,
    reason,
    run,
    states,
)

from powercut.cluster.host import RunHere
from powercut.model.errors import HostError
from powercut.model.verdict import Verdict
from powercut.report.fleet import checked
from powercut.store.place import read_place

pytestmark = pytest.mark.usefixtures("fake_machine", "no_patience")


def change_verdict(kind, body):
    """Every loss is called SAFE."""
    if kind == "done":
        verdict = json.loads(body["files"]["verdict.json"])
        if verdict["verdict"] == "lossy":
            verdict |= {"verdict": "safe", "commits_lost": 0, "lost_lsns": [], "findings": []}
            body["files"]["verdict.json"] = json.dumps(verdict)
            body["outcomes"] = ["SAFE"]
    return body


def test_a_host_that_calls_losses_safe_is_found_out(hosts, tmp_path):
    first(hosts, "gamma", change_verdict, when=of_cell("lying"))
    done = run(hosts, tmp_path)
    assert states(done)["gamma"] == "distrusted"
    assert "judged here it is LOSSY" in reason(done, "gamma")
    assert [cell.verdict for cell in done.cells] == [Verdict.SAFE, Verdict.LOSSY]
    assert all(read_place(trial.path).host != "gamma" for trial in folders(done))


@pytest.mark.nightly
def test_a_loss_that_a_liar_made_up_is_neither_shown_nor_forgotten(hosts, tmp_path):
    def before(kind, body):
        if kind == "done" and "/cells/honest/" in body["folder"]:
            verdict = json.loads(body["files"]["verdict.json"])
            body["files"]["verdict.json"] = json.dumps(verdict | {"verdict": "lossy"})
            body["outcomes"] = ["LOSSY"]
        return body

    first(hosts, "gamma", before, when=of_cell("honest"))
    done = run(hosts, tmp_path)
    assert states(done)["gamma"] == "distrusted"
    assert [cell.verdict for cell in done.cells] == [Verdict.SAFE, Verdict.LOSSY]


@pytest.mark.nightly
def test_a_trial_of_another_program_than_was_carried_is_not_believed(hosts, tmp_path, monkeypatch):
    carried = {"program_folder_sha256": "f" * 64}
    monkeypatch.setattr("powercut.cluster.run.program_digests", lambda *_: carried)
    with pytest.raises(HostError, match="no host of the cluster is left") as error:
        run(hosts, tmp_path)
    told = "program_folder_sha256 is none, and ffffffffffffffff was carried there"
    assert str(error.value).count(told) == len(NAMES)


@pytest.mark.nightly
def test_another_recording_than_was_judged_is_refused(hosts, tmp_path):
    def change(folder):
        for name in ("evidence.pack", "disk.data"):
            path = folder / name
            if path.exists():
                path.chmod(0o600)
                path.write_bytes(path.read_bytes()[:-1] + b"?")

    hosts["beta"].changed_evidence = change
    first(hosts, "beta", honestly)
    done = run(hosts, tmp_path)
    assert states(done)["beta"] == "distrusted"
    assert "the recording is not the one that it judged" in reason(done, "beta")
    assert [cell.verdict for cell in done.cells] == [Verdict.SAFE, Verdict.LOSSY]


@pytest.mark.nightly
def test_a_host_that_says_nonsense_is_lost_and_nothing_of_it_runs(hosts, tmp_path):
    first(hosts, "beta", lambda kind, body: ["!"] if kind == "done" else body)
    done = run(hosts, tmp_path)
    assert states(done)["beta"] == "distrusted"
    assert "what it says makes no sense" in reason(done, "beta")
    assert done.exit_status == 0


@pytest.mark.nightly
def test_a_host_whose_controls_do_not_behave_is_not_believed(hosts, tmp_path):
    """Its disk keeps everything even where it was told to lie: it could not see a loss."""

    def before(kind, body):
        if kind == "done" and "/controls/" in body["folder"]:
            return {
                **body,
                "files": {**body["files"], "verdict.json": safe(body)},
                "outcomes": ["SAFE"],
            }
        return body

    def safe(body):
        verdict = json.loads(body["files"]["verdict.json"])
        return json.dumps(verdict | {"verdict": "safe", "commits_lost": 0, "lost_lsns": []})

    made = threading.Barrier(len(NAMES))  # that each of them owes controls

    def meeting(change):
        met = []

        def wait(kind, body):
            if kind == "done" and not met:
                met.append(made.wait(TIMEOUT_S))
            return change(kind, body)

        return wait

    for name, host in hosts.items():
        host.before = meeting(before if name == "alpha" else honestly)
    done = run(hosts, tmp_path, text=SCENARIO.partition("cells:")[0])
    assert states(done)["alpha"] == "distrusted"
    assert done.cells[0].verdict is Verdict.SAFE


@pytest.mark.nightly
def test_a_host_that_repeats_a_trial_until_it_is_safe_is_found(hosts, tmp_path, monkeypatch):
    """Of two tries the second one is told; that there were two stands beside the evidence."""
    make = RunHere._make

    def again(self, order, place, tries):
        first = make(self, order, place, tries)
        if first == "LOSSY" and self._root == hosts["beta"].root:
            with tries.open("a") as file:
                file.write(f"{first}\n")
            return make(self, order, place, tries)
        return first

    monkeypatch.setattr("powercut.cluster.host.RunHere._make", again)
    first(hosts, "beta", honestly, when=of_cell("lying"))
    done = run(hosts, tmp_path)
    assert states(done)["beta"] == "distrusted"
    assert "one trial has one outcome, and it had LOSSY, then LOSSY" in reason(done, "beta")
    assert [cell.verdict for cell in done.cells] == [Verdict.SAFE, Verdict.LOSSY]


def test_a_trial_that_was_begun_again_is_judged_here_and_counted(hosts, tmp_path, monkeypatch):
    """As by a host whose worker dies whenever a trial has lost something, until one has not."""
    make = RunHere._make

    def killed_once(self, order, place, tries):
        if order.control is None and self._root == hosts["beta"].root:
            tries.parent.mkdir(parents=True, exist_ok=True)
            tries.write_text("begun\n")
        return make(self, order, place, tries)

    monkeypatch.setattr("powercut.cluster.host.RunHere._make", killed_once)
    monkeypatch.setattr("powercut.cluster.ledger.JUDGED_PART", 0.0)
    first(hosts, "beta", honestly)
    done = run(hosts, tmp_path, text=SCENARIO.partition("cells:")[0])
    assert done.cells[0].verdict is Verdict.SAFE
    assert set(states(done).values()) == {"took-part"}
    places = [read_place(trial.path) for trial in folders(done)]
    of_beta = [place for place in places if place.host == "beta" and place.tries == 2]
    assert of_beta
    assert all(place.judged_here for place in of_beta)
    begun = {host.name: host.begun_again for host in done.fleet.hosts}
    assert begun == {"alpha": 0, "beta": len(of_beta), "gamma": 0}
    assert "begun more than once, on beta: " in checked(done.fleet)
