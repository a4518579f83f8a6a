# SPDX-License-Identifier: Apache-2.0
"""What `powercut explore` prints of a recording."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from fake_machine import BOTH_SIDES, runs_on_it

from powercut.campaign.runner import run_scenarios
from powercut.cli.commands import cli
from powercut.model.verdict import Verdict
from powercut.scenario.load import parse_scenario
from powercut.store.exploration import read_exploration
from powercut.store.layout import ResultDir


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A run with a recording of an honest disk, and one of a lying one."""
    with pytest.MonkeyPatch.context() as patch:
        runs_on_it(patch)
        (done,) = run_scenarios(
            [parse_scenario(BOTH_SIDES, Path("far.yaml"))],
            seed=7,
            trials=1,
            results=tmp_path_factory.mktemp("results"),
        ).runs
        yield ResultDir(Path(done.result_directory))


@pytest.mark.parametrize(
    ("cell", "says"), [("honest", "✓ SAFE far, honest"), ("lying", "✗ LOSSY far, lying")]
)
def test_the_command_prints_the_verdict_on_the_recording(recorded, monkeypatch, cell, says):
    """Of a disk that lies, states with everything that was issued lose nothing."""
    runs_on_it(monkeypatch)
    trial = recorded.place_of(cell, 1)
    argv = ["explore", str(trial.path), "--policy", "everything-issued"]
    argv += ["--at", "completion", "--budget", "8", "--jobs", "1"]
    done = CliRunner().invoke(cli, argv, standalone_mode=False, env={"COLUMNS": "100"})
    assert done.exception is None
    words = " ".join(done.output.split())
    assert (done.return_value, says in words) == (0, True), done.output
    explored = read_exploration(trial)
    assert explored is not None
    assert explored.verdict is Verdict.SAFE
    assert ("The states alone are SAFE" in words) == (cell == "lying")
