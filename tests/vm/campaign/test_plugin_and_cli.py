# SPDX-License-Identifier: Apache-2.0
"""The two ways in: the command line, and pytest on a scenario file, with real guests."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

from command_line import powercut

from powercut.paths import ROOT, launcher

PROGRAMS = Path(sys.executable).parent

SCENARIO = """powercut: 1
name: two-cells
workload: {record: 1KiB}
disk: {flush_latency: 10ms}  # as in the tests' own process
cut: {trigger: {acks: 20}}
explore: {budget: 4}
cells:
  - {name: honest, expect: safe}
  - {name: lying, disk.flush: ignored, disk.fua: ignored, expect: %s}
"""


def write(folder: Path, expected_of_lying: str) -> Path:
    path = folder / "two-cells.yaml"
    path.write_text(SCENARIO % expected_of_lying)
    return path


def test_run_json_and_exit_status(tmp_path):
    scenario = write(tmp_path, "safe")  # wrong on purpose
    results = tmp_path / "results"
    done = powercut("run", scenario, "--seed", 5, "--json", "-", "--results", results)
    assert done.returncode == 1, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    honest, lying = run["cells"]
    assert (honest["verdict"], honest["as_expected"]) == ("safe", True)
    assert (lying["verdict"], lying["as_expected"]) == ("lossy", False)
    assert lying["lost_lsns"] == [{"first": 1, "last": lying["commits_acked"]}]
    assert lying["exposure"]["lsns"] == lying["lost_lsns"]
    assert [control["behaved"] for control in honest["controls"]] == [True, True]


def test_pytest_collects_each_cell_and_reports_it(tmp_path):
    scenario = write(tmp_path, "safe")
    scenario.write_text(scenario.read_text() + "filesystem: {type: raw}\n")
    junit = tmp_path / "junit.xml"
    done = subprocess.run(
        [
            *(PROGRAMS / "pytest", scenario, "-n", "2", "-p", "no:cacheprovider"),
            *(f"--junitxml={junit}", "--powercut-seed", "5"),
            *("--powercut-results", tmp_path / "results"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 1 passed" in done.stdout
    assert "did not come back" in done.stdout
    assert f"{shlex.quote(launcher())} run" in done.stdout  # how to repeat it
    cases = {case.get("name"): case for case in ET.parse(junit).iter("testcase")}
    assert set(cases) == {"honest", "lying"}
    assert cases["honest"].find("failure") is None
    assert cases["lying"].find("failure") is not None


def test_plan_shows_the_machine():
    done = powercut("run", "--dry-run", ROOT / "scenarios/first-light.yaml", "--seed", 5)
    assert done.returncode == 0
    assert "qemu-system-x86_64" in done.stdout
    assert "lying" in done.stdout
