# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C: what was done stays, and a person is told where it is and how to go on."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from runs_by_hand import make_run

from powercut.campaign.run import Run
from powercut.cli.interrupt import Resumable
from powercut.console import PlainConsole
from powercut.model.errors import UsageError
from powercut.model.events import CertifyStarted, RunStarted, TrialFinished
from powercut.model.verdict import Verdict
from powercut.paths import command
from powercut.report.terminal.show import print_story

TIMEOUT_S = 60.0
FINISHED = TrialFinished(
    cell="honest",
    trial=1,
    verdict=Verdict.SAFE,
    acked=3,
    lost=0,
    seconds=1.0,
    control=False,
    as_expected=True,
    earlier=False,
)


def started(folder: Path) -> RunStarted:
    return RunStarted(scenario="x", seed=1, cells=("honest",), trials=3, directory=folder)


@pytest.mark.parametrize("verb", ["run", "certify"])
def test_it_says_what_is_kept_and_how_to_go_on(tmp_path, monkeypatch, capsys, verb):
    monkeypatch.chdir(tmp_path)
    heard = []
    certificate = CertifyStarted(
        title="x", seed=1, scenarios=1, cells=1, trials=5, directory=tmp_path / "certify/x/1"
    )
    events = [*([certificate] if verb == "certify" else []), started(tmp_path / "results/x/1")]

    def interrupted() -> None:
        with Resumable(verb, heard.append).heard() as listener:
            for event in (*events, FINISHED):
                listener(event)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert heard == [*events, FINISHED]
    done, line = capsys.readouterr().err.strip().splitlines()
    folder = {"run": "results/x/1", "certify": "certify/x/1"}[verb]
    trials = {"run": 3, "certify": 5}[verb]
    assert done == f"1 of {trials} power cuts done, and kept: {folder}"
    assert line == f"go on with: {command()} {verb} --resume {folder}"


def test_it_does_not_wait_for_what_is_under_way():
    run = object.__new__(Run)
    run.interrupted = threading.Event()
    under_way, release = threading.Event(), threading.Event()

    def trial() -> bool:
        under_way.set()
        return release.wait(TIMEOUT_S)

    submitted = []

    def interrupted() -> None:
        with run._workers(1) as pool:
            submitted.extend(pool.submit(trial) for _ in range(2))
            assert under_way.wait(TIMEOUT_S)
            raise KeyboardInterrupt

    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert run.interrupted.is_set()
        assert [trial.cancelled() for trial in submitted] == [False, True]
        assert submitted[0].running()
    finally:
        release.set()


def test_the_process_ends_although_threads_are_at_work():
    code = (
        "import sys, threading\n"
        "from powercut.cli import main, scenarios\n"
        "def interrupted(*_):\n"
        "    threading.Thread(target=threading.Event().wait).start()\n"
        "    raise KeyboardInterrupt\n"
        "scenarios.find_scenarios = interrupted\n"
        "sys.argv = ['powercut', 'run']\n"
        "main.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\ninterrupted\n")


def test_show_says_that_a_run_is_not_finished(tmp_path):
    run = make_run(tmp_path)
    (run.path / "verdict.json").unlink()
    with pytest.raises(UsageError, match="not come to its end; recorded so far: 4 power cuts") as e:
        print_story(PlainConsole(), run, cell=None, trial=None)
    assert f"run --resume {run.path} resumes it" in e.value.hint
