# SPDX-License-Identifier: Apache-2.0
"""A program over layers of device-mapper: each state is recovered through the same layers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from powercut.paths import ROOT
from powercut.recover.uml.boot import unavailable

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
]
SCENARIO = ROOT / "scenarios" / "matrix" / "stacks.yaml"
NAMES = ("three", "integrity-direct")


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """Each cell's result, and what `show` says of it."""
    folder = tmp_path_factory.mktemp("stacks")
    text = SCENARIO.read_text().replace("../../workloads", str(ROOT / "workloads"))
    path = folder / "scenario.yaml"
    text = text.replace("budget: 40", "budget: 32")
    path.write_text(text.replace("\ncells:", "\ncontrols: none\ncells:"))
    only = [word for name in NAMES for word in ("--only", name)]
    done = powercut("run", path, "--seed", "7", *only, "--json", "-", "--results", folder)
    assert done.stdout, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    shown = {
        cell["cell"]: powercut("show", Path(run["result_directory"], "cells", cell["cell"], "0001"))
        for cell in run["cells"]
    }
    return {
        cell["cell"]: (cell, " ".join(shown[cell["cell"]].stdout.split())) for cell in run["cells"]
    }


def powercut(*argv):
    return subprocess.run(
        [sys.executable, "-m", "powercut.cli.main", *map(str, argv)],
        capture_output=True, text=True, check=False, timeout=500,
    )  # fmt: skip


def test_what_was_flushed_through_three_layers_comes_back(cells):
    cell, shown = cells["three"]
    (trial,) = cell["trials"]  # no control was run, so that it vouches for nothing
    assert (trial["verdict"], trial["findings"]) == ("safe", [])
    assert "layers from the disk up: linear: " in shown


def test_checksums_without_a_journal_leave_states_that_cannot_be_read(cells):
    cell, _ = cells["integrity-direct"]
    assert (cell["verdict"], cell["trials"][0]["commits_lost"]) == ("lossy", 0), cell["reasons"]
    assert "Checksum failed at sector" in json.dumps(cell)
