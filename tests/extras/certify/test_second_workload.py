# SPDX-License-Identifier: Apache-2.0
"""A workload from elsewhere is run, judged, explored and certified by a row of a table alone.

It is `tests/support/tally`: settings, program, reader, claims and check of its own.  Settings are
read when powercut is loaded, so powercut runs in a process of its own, after the rows were added.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SUPPORT = Path(__file__).resolve().parents[2] / "support"
SCENARIO = """powercut: 1
name: tally
filesystem: {type: raw}
disk: {size: 2MiB}
workload: {kind: tally, marks: 64}
machine: {backend: tally}
cut: {trigger: {acks: 20}}
explore: {budget: 36}
cells:
  - name: honest
  - name: lying
    disk.flush: ignored
    disk.fua: ignored
    explore.budget: 1
    expect: lossy
"""


def powercut(*words: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(SUPPORT), "COLUMNS": "200"}
    argv = [sys.executable, "-m", "tally.with_rows", *map(str, words)]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tally")
    (folder / "tally.yaml").write_text(SCENARIO)
    words = ("certify", folder / "tally.yaml", "--seed", 7, "--no-cost", "--keep", "all")
    done = powercut(*words, "--results", folder / "results")
    assert done.returncode == 0, done.stdout + done.stderr
    (certificate,) = folder.glob("results/certify/tally/*-7/certificate.json")
    return done, certificate


def test_its_verdicts_are_exact_and_its_controls_behaved(certified):
    cells = {cell["cell"]: cell for cell in json.loads(certified[1].read_text())["cells"]}
    assert {name: cell["verdict"] for name, cell in cells.items()} == {
        "honest": "safe",
        "lying": "lossy",
    }
    assert {
        (control["kind"], control["verdict"], control["behaved"])
        for cell in cells.values()
        for control in cell["controls"]
    } == {("lying-disk", "lossy", True), ("no-sync", "lossy", True), ("honest", "safe", True)}


def test_what_it_lost_is_stored_and_nobody_claims_to_know_its_bytes(certified):
    runs = list(certified[1].parent.glob("**/cells/*/0001/verdict.json"))
    told = {path.parents[1].name: json.loads(path.read_text()) for path in runs}
    assert told["lying"]["lost_lsns"] == [{"first": 1, "last": 20}]
    assert told["honest"]["commits_lost"] == 0
    assert told["honest"]["states"]["states"] >= 32
    for one in told.values():
        assert one["exposure"] is None
        assert one["acks"]["basis"] == "receipt"


def test_the_certificate_is_verified_from_its_recordings(certified):
    deep = powercut("verify", "--deep", certified[1].parent)
    assert deep.returncode == 0, deep.stdout + deep.stderr


def test_its_mistakes_are_refused_at_their_place(tmp_path):
    scenario = tmp_path / "tally.yaml"
    scenario.write_text(SCENARIO.replace("marks: 64", "marks: 9999").replace("budget: 36", "x: 1"))
    done = powercut("run", scenario, "--results", tmp_path)
    assert done.returncode == 2
    assert "tally.yaml:8:11: explore.x: unknown" in done.stderr
    scenario.write_text(SCENARIO.replace("marks: 64", "marks: 9999"))
    done = powercut("run", scenario, "--results", tmp_path)
    assert done.returncode == 2
    assert "tally.yaml:5:25: workload.marks: the disk has too few sectors" in done.stderr
    scenario.write_text(SCENARIO.replace("kind: tally", "kind: telly"))
    done = powercut("run", scenario, "--results", tmp_path)
    assert 'one of wal, program, tally, got "telly"; did you mean tally?' in done.stderr
