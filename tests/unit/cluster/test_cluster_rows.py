# SPDX-License-Identifier: Apache-2.0
"""A fleet's run of more trials than get a folder each, here of twelve: what is planted in its rows
has to be found.

The hosts are those of test_fleet_run.py: real workers in threads, on the fake machine.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import threading
from functools import partial
from pathlib import Path

import pytest
from fake_machine import FAKE, FakeBackend
from hosts_here import ClusterHere, EngineHere, two_cells

from powercut.campaign.run import RunOptions
from powercut.campaign.runner import resume_run, run_scenarios
from powercut.campaign.selection import Selection
from powercut.campaign.verify import verify
from powercut.certify.certifier import CertifyRunOptions, Request, certify, resume_certificate
from powercut.certify.verify import examine
from powercut.cluster import row_claims
from powercut.cluster.run import ClusterRun
from powercut.cluster.start import fetch_recordings
from powercut.model.errors import DamagedRecording, UsageError
from powercut.model.events import TrialFinished
from powercut.model.verdict import Verdict
from powercut.paths import CACHE
from powercut.rig.rig import Rig
from powercut.scenario.load import expand, parse_scenario
from powercut.scenario.machines import MACHINES
from powercut.store.layout import ResultDir
from powercut.store.place import read_place
from powercut.store.rows import ROWS, Row, TrialRows
from powercut.store.trial_dir import TrialDir
from powercut.store.trial_result import TrialResult

NAMES = ("alpha", "beta")
TRIALS = 6
LISTED = 2
TIMEOUT_S = 120
SCENARIO = two_cells("many", TRIALS)
HONEST = SCENARIO.partition("cells:")[0]


@pytest.fixture(scope="module", autouse=True)
def _few():
    """Two trials of each cell are listed, and the fake machine is there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MACHINES, "fake", FAKE)
        patch.setattr("powercut.cluster.row_claims.ROWS_FROM", 0)
        patch.setattr("powercut.cluster.run.ROOM", 0)
        patch.setattr("powercut.store.rows.LISTED", LISTED)
        patch.setattr("powercut.certify.certifier.ready_rig", lambda *_: Rig(CACHE, FakeBackend()))
        yield


def scenario(text=SCENARIO):
    return parse_scenario(text, Path("many.yaml"))


def hosts_in(folder: Path) -> dict[str, ClusterHere]:
    return {name: ClusterHere(folder / name, lambda _: Rig(CACHE, FakeBackend())) for name in NAMES}


def run(hosts, results, text=SCENARIO):
    with EngineHere(hosts) as engine:
        made = partial(ClusterRun, engine)
        return run_scenarios([scenario(text)], seed=7, results=results, run_of=made).runs[0]


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """A certificate of two hosts; not to be changed."""
    root = tmp_path_factory.mktemp("certified")
    request = Request("t", (scenario(),), 7, "powercut certify", Selection(), measure=False)
    with EngineHere(hosts_in(root)) as engine:
        options = CertifyRunOptions(run_of=partial(ClusterRun, engine))
        return certify(request, root / "results", options)


@pytest.fixture
def copy(certified, tmp_path):
    """The folder of the certificate, to be changed."""
    return Path(shutil.copytree(certified.directory.path, tmp_path / "copy", symlinks=True))


def rows_of(folder: Path) -> Path:
    (found,) = folder.glob(f"runs/many/*Z-*/{ROWS}")
    return found


def test_a_certificate_names_the_rows_by_their_digest(certified):
    honest, lying = certified.certificate.cells
    assert (honest.verdict, honest.cuts, len(honest.evidence)) == (Verdict.SAFE, TRIALS, 2)
    assert honest.unlisted.trials == TRIALS - 2
    assert honest.loss_probability_upper_95 == pytest.approx(1 - 0.05 ** (1 / TRIALS))
    assert (lying.verdict, lying.cuts, len(lying.evidence)) == (Verdict.LOSSY, TRIALS, TRIALS)
    assert lying.unlisted is None
    assert certified.certificate.fleet.claims == TRIALS
    seen = examine(certified.directory.path)
    assert seen.problems == ()
    assert any("were not fetched; they lie on" in line for line in seen.unchecked)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("UPDATE trials SET manifest = zeroblob(32) WHERE number = 4", "unlisted"),
        ("DELETE FROM trials WHERE number = 4", "5 trials, and 6 were ordered"),
        (
            "INSERT INTO trials SELECT cell, 7, seed, verdict, acked, lost, host, seconds, "
            "manifest, result, exploration FROM trials WHERE number = 4",
            "not what its result says",
        ),
        ("UPDATE trials SET acked = 99 WHERE number = 4", "not those of its result"),
    ],
)
def test_a_row_that_was_changed_dropped_or_added_is_found(copy, change, words):
    with sqlite3.connect(rows_of(copy)) as database:
        assert database.execute(change).rowcount == 1
    assert any(words in problem for problem in examine(copy, seals=False).problems)


def test_a_certificate_that_is_resumed_counts_the_rows_as_done(copy):
    events = []
    resume_certificate(copy, CertifyRunOptions(on_event=events.append))
    done = [e for e in events if isinstance(e, TrialFinished) and not e.control]
    assert sorted((e.cell, e.trial) for e in done) == [
        (cell, number) for cell in ("honest", "lying") for number in range(1, TRIALS + 1)
    ]
    assert all(e.earlier for e in done)


def test_rows_that_are_gone_are_missed(copy):
    rows_of(copy).unlink()
    problems = examine(copy, seals=False).problems
    assert any("2 trials, and 6 were ordered" in problem for problem in problems)


def test_a_count_that_was_made_greater_is_found(copy):
    path = copy / "certificate.json"
    told = json.loads(path.read_text())
    told["cells"][0]["unlisted"]["trials"] += 1
    path.write_text(json.dumps(told))
    assert any("6 cuts with 7 recordings" in told for told in examine(copy, seals=False).problems)


def test_deep_asks_for_each_recording(certified):
    problems = examine(certified.directory.path, deep=True).problems
    assert any("were not fetched" in told and ROWS in told for told in problems), problems
    with pytest.raises(UsageError, match="were not fetched"):
        verify(rows_of(certified.directory.path).parent)


def test_the_recordings_of_rows_are_judged_again_and_all_verify(tmp_path, monkeypatch):
    monkeypatch.setattr("powercut.cluster.ledger.JUDGED_PART", 1.0)
    done = run(hosts_in(tmp_path), tmp_path / "results")
    assert (done.fleet.claims, done.fleet.claims_judged) == (TRIALS, TRIALS)
    assert done.cells[0].unlisted.trials == TRIALS - 2
    again = verify(Path(done.result_directory))
    assert [cell.verdict for cell in again.cells] == [Verdict.SAFE, Verdict.LOSSY]
    assert [cell.trials_in_all for cell in again.cells] == [TRIALS, TRIALS]


@pytest.mark.nightly
def test_what_was_not_fetched_can_be_fetched_and_verifies_then(tmp_path):
    hosts = hosts_in(tmp_path)
    done = run(hosts, tmp_path / "results", HONEST)
    folder = Path(done.result_directory)
    left = sum(not trial.path.exists() for trial, _ in ResultDir(folder).unlisted())
    assert left == TRIALS - LISTED - sum(trial.kept for trial in of_rows(folder))
    with EngineHere(hosts) as engine:
        came, problems = fetch_recordings(folder, engine)
    assert problems == ()
    assert came >= left > 0
    assert sum(trial.kept for trial in of_rows(folder)) == TRIALS - LISTED
    assert verify(folder).cells[0].trials_in_all == TRIALS


def of_rows(folder: Path) -> list[TrialDir]:
    return [trial for trial, _ in ResultDir(folder).unlisted() if trial.path.exists()]


@pytest.mark.nightly
def test_a_host_that_changed_the_recording_of_a_row_is_not_believed(tmp_path, monkeypatch):
    monkeypatch.setattr("powercut.cluster.ledger.JUDGED_PART", 1.0)
    hosts = hosts_in(tmp_path)

    def change(folder: Path) -> None:
        path = folder / "manifest.json"
        path.write_text(path.read_text() + "\n")

    said = threading.Event()

    def before(kind, body):
        if kind == "done" and "/cells/" in body["folder"] and int(body["folder"][-4:]) > LISTED:
            said.set()
        return body

    def wait(kind, body):
        assert kind != "done" or said.wait(TIMEOUT_S)  # so that beta has a row
        return body

    hosts["beta"].changed_evidence = change
    hosts["alpha"].before, hosts["beta"].before = wait, before
    done = run(hosts, tmp_path / "results", HONEST)
    states = {host.name: host.state for host in done.fleet.hosts}
    assert states == {"alpha": "took-part", "beta": "distrusted"}
    assert "the recording is not the one that it judged" in done.fleet.hosts[1].reason
    (cell,) = done.cells
    assert (cell.verdict, cell.trials_in_all) == (Verdict.SAFE, TRIALS)
    with TrialRows.find(Path(done.result_directory)) as rows:
        assert rows.hosts() == ("alpha",)


@pytest.mark.nightly
def test_an_interrupted_run_goes_on_with_its_rows(tmp_path, monkeypatch):
    hosts = hosts_in(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("powercut.campaign.run.cell_results", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(hosts, tmp_path / "results")
    directory = (tmp_path / "results" / "many" / "latest").resolve()
    for host in hosts.values():
        host.made.clear()
    with EngineHere(hosts) as engine:
        done = resume_run(directory, RunOptions(run_of=partial(ClusterRun, engine)))
    assert [cell.trials_in_all for cell in done.cells] == [TRIALS, TRIALS]
    assert [name for host in hosts.values() for name in host.made if "/cells/" in name] == []
    _of_another_seed(directory)
    (directory / "verdict.json").unlink()
    with EngineHere(hosts) as engine, pytest.raises(DamagedRecording, match="its seed is not"):
        resume_run(directory, RunOptions(run_of=partial(ClusterRun, engine)))


def _interrupted(*_):
    raise KeyboardInterrupt


def _of_another_seed(directory: Path) -> None:
    """Its folders are gone, and its rows are of trials that this run has not ordered."""
    environment = directory / "environment.json"
    environment.write_text(environment.read_text().replace('"seed": 7', '"seed": 8'))
    for path in directory.glob("cells/*/*"):
        if read_place(path) is not None:
            shutil.rmtree(path)


@pytest.mark.nightly
def test_a_question_sets_no_deadline_for_what_is_written_after_it(tmp_path, monkeypatch):
    """A run of more than a minute asks for rows now and then, and goes on writing."""
    plan = expand(scenario(), seed=7, trials=TRIALS)
    with contextlib.closing(row_claims.rows_for(tmp_path, plan)) as rows:
        (honest, _) = plan.cells
        rows.add("honest", row_of_trial(honest.trials[LISTED]))
        monkeypatch.setattr("powercut.store.rows._STEPS", 1)
        assert rows.row("honest", LISTED + 1) is not None
        monkeypatch.setattr("powercut.store.rows.time.monotonic", lambda: 1e12)
        for trial in honest.trials[LISTED + 1 :]:
            rows.add("honest", row_of_trial(trial))
        rows.flush()


def row_of_trial(trial):
    result = TrialResult(
        trial=trial.number,
        seed=trial.seed,
        trigger=str(trial.trigger),
        verdict=Verdict.SAFE,
        commits_acked=1,
        commits_attempted=1,
        commits_lost=0,
        result_directory=f"cells/honest/{trial.number:04d}",
    )
    return Row.of("alpha", 1.0, "0" * 64, result, "")
