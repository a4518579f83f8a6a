# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin, in a pytest of its own.

The run layer is replaced where a test needs a certain outcome; the real one runs in
tests/vm.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from own_pytest import run_pytest

SCENARIO = "powercut: 1\nname: two\nseed: 5\ncells: [{name: good}, {name: bad}, {name: odd}]\n"

CONFTEST = """
from pathlib import Path
import powercut.campaign.runner
from powercut.model.errors import HostError
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.scenario.load import expand, load_scenario
from powercut.store.layout import ResultDir, reproduce_command
from powercut.store.results import CampaignOutcome, CellResult, RunResult
from powercut.store.trial_result import TrialResult

FINDINGS = {
    "good": (),
    "bad": (Finding(FindingKind.LOST, Verdict.LOSSY, "gone", (LsnRange(7, 9),)),),
    "odd": (Finding(FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, "the guest hung"),),
}

def run_scenarios(paths, *, seed, results, only=(), trials=None, jobs=1, on_event=None):
    scenario = load_scenario(paths[0])
    plan = expand(scenario, seed=seed, trials=trials, only=only)
    (cell,) = plan.cells
    if cell.name == "broken":
        raise HostError("no QEMU", hint="install it")
    directory = ResultDir.create(results, plan.scenario, seed)
    directory.write_scenario(scenario.text)
    directory.write_reproduce(seed)
    findings = FINDINGS[cell.name]
    verdict = max((f.verdict for f in findings), default=Verdict.SAFE)
    trial = TrialResult.judged(
        cell.trials[0], verdict=verdict, acked=9, attempted=10, findings=findings
    )
    result = RunResult.of(
        powercut="0", scenario=plan.scenario, description="", scenario_file=str(paths[0]),
        seed=seed, started="now", seconds=1.0, result_directory=str(directory.path),
        cells=[CellResult.of(plan.scenario, cell, [trial], verdict=verdict,
                             reproduce=reproduce_command(directory.scenario_copy, seed, cell))],
    )
    directory.write_verdict(result)
    return CampaignOutcome(runs=(result,))

powercut.campaign.runner.run_scenarios = run_scenarios
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    (tmp_path / "two.yaml").write_text(SCENARIO)
    return tmp_path


def test_foreign_yaml_is_left_alone_and_nothing_is_imported_for_it(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "compose.yaml").write_text("services: {powercut: 1}\n")
    (tmp_path / "broken.yml").write_text("{{{ not yaml\n")
    (tmp_path / "test_it.py").write_text(
        "import sys\n"
        "def test_it():\n"
        "    assert not [n for n in sys.modules if n.startswith('powercut.scenario')]\n"
        "    assert 'pydantic' not in sys.modules\n"
    )
    done = run_pytest(tmp_path, "-q")
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_each_cell_is_a_test(folder):
    done = run_pytest(folder, "--collect-only", "-q")
    assert done.stdout.splitlines()[:3] == [
        "two.yaml::good",
        "two.yaml::bad",
        "two.yaml::odd",
    ]


def test_campaigns_run_by_name_only(folder):
    (folder / "two.yaml").write_text(SCENARIO + "campaign: true\n")
    done = run_pytest(folder, "--collect-only", "-q")
    assert "3 deselected" in done.stdout
    done = run_pytest(folder, "--collect-only", "-q", "-m", "campaign")
    assert "3 tests collected" in done.stdout


def test_a_mistake_in_a_scenario_is_shown_without_a_traceback(folder):
    (folder / "two.yaml").write_text(SCENARIO + "trails: 3\n")
    done = run_pytest(folder)
    assert done.returncode == 2
    assert "two.yaml:5:1: trails: unknown key; did you mean trials?" in done.stdout
    assert "Traceback" not in done.stdout


def test_a_failure_tells_a_person_what_is_needed(folder):
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "two.yaml").write_text(SCENARIO.replace("]", ", {name: broken}]"))
    done = run_pytest(folder, "--powercut-results", "results", "--junitxml", "junit.xml")
    assert done.returncode == 1
    assert "1 passed" in done.stdout
    assert "3 failed" in done.stdout  # unknown is not a pass
    assert "two, cell bad: LOSSY, expected SAFE" in done.stdout
    assert "acked       records 1-9" in done.stdout
    assert "lost        3 (LSN 7-9)" in done.stdout
    assert "scenario.yaml --seed 5 --only bad" in done.stdout
    assert "two, cell odd: INCONCLUSIVE, expected SAFE" in done.stdout
    assert "Nothing can be said: the guest hung." in done.stdout
    assert "no QEMU\nhint: install it" in done.stdout
    assert "Traceback" not in done.stdout
    cases = {case.attrib["name"]: case for case in ET.parse(folder / "junit.xml").iter("testcase")}
    properties = {p.attrib["name"]: p.attrib["value"] for p in cases["bad"].iter("property")}
    assert properties["lost_lsns"] == "7-9"
    assert (folder / properties["result_directory"] / "report.html").is_file()


def test_cells_run_in_parallel_with_one_seed_for_all_workers(folder):
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "two.yaml").write_text(SCENARIO.replace("seed: 5\n", ""))
    done = run_pytest(folder, "-n", "2", "--powercut-results", "results")
    # Workers that drew their own seeds would be told apart by pytest-xdist, or here.
    assert "1 passed" in done.stdout, done.stdout
    assert "2 failed" in done.stdout
    runs = [path for path in (folder / "results" / "two").iterdir() if not path.is_symlink()]
    assert len(runs) == 3
    assert len({path.name.partition("-")[2].partition(".")[0] for path in runs}) == 1


def test_the_seed_can_be_given(folder):
    (folder / "two.yaml").write_text(SCENARIO.replace("seed: 5\n", ""))
    done = run_pytest(folder, "--collect-only", "--powercut-seed", "77")
    assert "powercut: seed 77 where a scenario gives none" in done.stdout
