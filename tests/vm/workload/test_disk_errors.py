# SPDX-License-Identifier: Apache-2.0
"""Programs on a disk that fails a request: what they acknowledge after that is judged, too."""

import json
from pathlib import Path

import pytest
from command_line import powercut

from powercut.paths import ROOT
from powercut.recover.uml.boot import unavailable

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
]
SCENARIO = ROOT / "scenarios" / "programs" / "errors.yaml"


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """Each cell's result, and what `show` says of it."""
    folder = tmp_path_factory.mktemp("errors")
    text = SCENARIO.read_text().replace("../../workloads", str(ROOT / "workloads"))
    text = text.replace("budget: 40", "budget: 32")
    path = folder / "scenario.yaml"
    path.write_text(text.replace("\ncells:", "\ncontrols: none\ncells:"))
    done = powercut("run", path, "--seed", "7", "--json", "-", "--results", folder / "results")
    assert done.stdout, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    shown = {
        cell["cell"]: powercut("show", Path(run["result_directory"], "cells", cell["cell"], "0001"))
        for cell in run["cells"]
    }
    return {
        cell["cell"]: (cell, " ".join(shown[cell["cell"]].stdout.split())) for cell in run["cells"]
    }


@pytest.mark.parametrize("name", ["stops", "writes-again"])
def test_who_does_not_believe_a_second_sync_loses_nothing(cells, name):
    cell, shown = cells[name]
    (trial,) = cell["trials"]  # no control was run, so that it vouches for nothing
    assert (trial["verdict"], trial["findings"]) == ("safe", [])
    assert "Injected error: write, request" in shown


def test_a_sync_that_is_repeated_and_believed_loses_what_had_failed(cells):
    cell, shown = cells["syncs-again"]
    (trial,) = cell["trials"]
    assert (cell["verdict"], trial["commits_lost"]) == ("lossy", 1), cell["reasons"]
    (lost,) = trial["lost_lsns"]
    (met,) = trial["injected"]
    request = met.split(",")[1].removeprefix(" request ").split(":")[0]
    assert met.startswith(f"write, request {request}: EIO, ")
    told = [step["text"] for step in trial["loss"]["steps"]]
    failed = f"although request {request} had failed"
    assert f"operation {lost['first']} is acknowledged as durable, {failed}" in told
    assert f"Injected error: {met}." in shown
