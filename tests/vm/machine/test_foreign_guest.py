# SPDX-License-Identifier: Apache-2.0
"""A real machine that powercut knows nothing of: its kernel, its ssh server, its volatile cache.

What powercut does to it, it does over ssh and by the switch; the disk under it drops what was not
flushed, or lies about that.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import pytest
from foreign_guest import ForeignGuest, unavailable
from ssh_hosts import Home

from powercut.campaign.runner import run_scenarios
from powercut.campaign.verify import verify
from powercut.model.verdict import LsnRange, Verdict
from powercut.paths import ROOT
from powercut.report.explained import explain
from powercut.scenario.load import load_scenario
from powercut.scenario.settings import ControlKind

pytestmark = pytest.mark.vm


@pytest.fixture
def folder():
    if why := unavailable():
        pytest.skip(why)
    with tempfile.TemporaryDirectory(prefix="pc-") as name:
        yield Path(name)


def run_on(guest, folder, expect, cut, controls="auto"):
    brought = folder / "program"
    brought.mkdir()
    shutil.copy(ROOT / "workloads/examples/append.sh", brought)
    power = {word: guest.switch.command(word) for word in ("off", "on", "status")}
    machine = {"backend": "foreign", "host": "machine", "folder": "/data/pc"}
    if cut == "power-loss":
        machine["power"] = power
    scenario = brought / "foreign.yaml"
    scenario.write_text(
        f"powercut: 1\nname: foreign\nmachine: {json.dumps(machine)}\n"
        "filesystem: {type: ext4}\nworkload: {kind: program, command: ./append.sh}\n"
        f"cut: {{kind: {cut}, trigger: {{acks: 20}}}}\ndeadline: 5min\nexpect: {expect}\n"
        f"controls: {controls}\n"
    )
    (done,) = run_scenarios([load_scenario(scenario)], seed=7, results=folder / "results").runs
    (cell,) = done.cells
    (trial,) = cell.trials
    assert trial.commits_acked >= 20, cell.reasons
    assert verify(Path(done.result_directory)).cells[0].trials[0].findings == trial.findings
    return cell, trial


@pytest.fixture
def machine(folder, monkeypatch):
    """Starts such a machine, whose disk drops what was not flushed, or lies about that."""
    home = Home.make(folder / "home")
    monkeypatch.setenv("HOME", str(home.path))
    return lambda *, lies: ForeignGuest(folder, home, lies=lies)


def test_a_machine_that_loses_its_power_loses_nothing(folder, machine):
    with machine(lies=False) as guest:
        cell, trial = run_on(guest, folder, "survived", "power-loss", "none")
        assert guest.cuts == 1
    assert (trial.verdict, trial.findings) == (Verdict.SURVIVED, ()), cell.reasons


def test_a_machine_whose_disk_lies_loses_all(folder, machine):
    with machine(lies=True) as guest:
        cell, trial = run_on(guest, folder, "lossy", "power-loss")
        assert (cell.verdict, guest.cuts) == (Verdict.LOSSY, 1)
    assert trial.lost_lsns == (LsnRange(1, trial.commits_acked),)


@pytest.mark.nightly
def test_controls_of_a_machine_lose_their_power_too(folder, machine):
    with machine(lies=False) as guest:
        cell, _ = run_on(guest, folder, "survived", "power-loss", "[no-sync, no-flush]")
        cuts = guest.cuts
    assert (cell.verdict, cuts) == (Verdict.SURVIVED, 3), cell.reasons
    assert [(control.kind, control.verdict) for control in cell.controls] == [
        (ControlKind.NO_SYNC, Verdict.LOSSY),
        (ControlKind.NO_FLUSH, Verdict.LOSSY),
    ]
    (found,) = (folder / "results").glob("foreign/latest/controls/no-flush-*/0001/verdict.json")
    said = json.loads(found.read_text())
    assert said["commits_lost"] == said["commits_acked"] >= 20  # its disk was told to flush nothing
    assert explain(cell).endswith("without flushes the control lost it.")
