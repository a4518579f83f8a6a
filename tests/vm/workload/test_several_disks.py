# SPDX-License-Identifier: Apache-2.0
"""Several disks that lose their power at one instant: what one says of itself says nothing of
another.

The program makes twenty operations and no more, and checkpoints after the 8th and the 16th, so
what each fault loses follows from the fault alone.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from powercut.paths import ROOT
from powercut.recover.uml.boot import unavailable

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
]
SCENARIO = ROOT / "scenarios" / "programs" / "two-disks.yaml"


def run(tmp_path, cell, **changed):
    """The cell of that name; `changed` are keys of the scenario in its place."""
    scenario = yaml.safe_load(SCENARIO.read_text())
    chosen = next(one for one in scenario["cells"] if one["name"] == cell)
    command = chosen.get("workload.command", scenario["workload"]["command"])
    chosen["workload.command"] = [str((SCENARIO.parent / command[0]).resolve()), *command[1:]]
    scenario["workload"]["command"] = chosen["workload.command"]
    scenario |= {"cells": [chosen], "controls": "none", "explore": {"budget": 24}} | changed
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(scenario))
    results = tmp_path / "results"
    words = ["run", path, "--seed", "7", "--json", "-", "--results", results]
    done = powercut(*words)
    assert done.stdout, done.stderr
    ((of_scenario,), said) = json.loads(done.stdout)["runs"], done.stderr
    (result,) = of_scenario["cells"]
    shown = powercut("show", Path(of_scenario["result_directory"], "cells", cell, "0001"))
    return result, " ".join(shown.stdout.split()), said


def powercut(*argv):
    return subprocess.run(
        [sys.executable, "-m", "powercut.cli.main", *map(str, argv)],
        capture_output=True, text=True, check=False, timeout=500,
    )  # fmt: skip


def lost(result):
    return [(span["first"], span["last"]) for span in result["lost_lsns"]]


def test_the_log_forgets_what_is_not_durable_on_the_other_disk(tmp_path):
    result, told, _ = run(tmp_path, "early")
    assert result["verdict"] == "lossy"
    assert lost(result) == [(1, 16)]
    assert "ignored" not in told


def test_of_two_disks_the_one_that_lies_is_named(tmp_path):
    result, told, _ = run(tmp_path, "data-lies")
    assert result["verdict"] == "lossy"
    assert lost(result) == [(1, 16)]  # and not 17 to 20, which are in the log of the other
    assert "disk first ignored" in told
    assert "disk log ignored" not in told


def test_an_xfs_with_its_log_on_a_disk_of_its_own(tmp_path):
    disks = [{"name": "log", "size": "16MiB", "holds": "folder"}]
    disks.append({"name": "journal", "size": "16MiB", "holds": "xfs-log"})
    result, told, said = run(
        tmp_path, "honest", filesystem={"type": "xfs"}, disk={"size": "32MiB", "also": disks}
    )
    assert result["commits_acked"] == 20, said
    assert lost(result) == []
    assert "look inside" not in told  # of any state with a finding
