# SPDX-License-Identifier: Apache-2.0
"""Each product with each setting of workloads/programs/expected.yaml gets the verdict it must get.

A campaign: a program whose product is not installed, or is too old for the setting, is left out.
"""

import json
import subprocess
import sys

import pytest
from ruamel.yaml import YAML

from powercut.paths import ROOT

PROGRAMS = ROOT / "workloads" / "programs"
CASES = YAML(typ="safe").load(PROGRAMS / "expected.yaml")
LIMITS = ["--acks", "200", "--seconds", "10", "--budget", "80", "--seed", "7", "--json", "-"]


def case_name(case) -> str:
    return " ".join([case["program"], case["settings"]]).strip()


@pytest.mark.campaign
@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_a_setting_gets_the_verdict_it_must_get(tmp_path, case):
    torn = ["--filesystem", "xfs", "--atomic-unit", "512", "--budget", "400"]
    limits = [*LIMITS, *(torn if case.get("torn") else [])]
    command = [PROGRAMS / case["program"], *case["settings"].split()]
    done = subprocess.run(
        [sys.executable, "-m", "powercut.cli.main", "record", *limits, "--results", tmp_path,
         "--", *command],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    result = json.loads(done.stdout)
    (cell,) = result["runs"][0]["cells"]
    told = " ".join(cell["reasons"])
    if "is not installed" in told or (done.returncode == 3 and "since" in case):
        pytest.skip(told or f"{case['program']} {case['since']} or later is not installed")
    assert (cell["verdict"].upper(), cell["reasons"]) == (case["expect"], [])
    assert [control["verdict"] for control in cell["controls"]] in ([], ["lossy"])
