# SPDX-License-Identifier: Apache-2.0
"""A Debian system with OpenSSH, of which powercut knows nothing, and a database that runs there."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import pytest
from foreign_guest import ForeignGuest, debian_root, unavailable
from ssh_hosts import Home

from powercut.campaign.runner import run_scenarios
from powercut.model.errors import PowercutError
from powercut.model.verdict import Verdict
from powercut.paths import ROOT
from powercut.scenario.load import load_scenario

pytestmark = [pytest.mark.vm, pytest.mark.campaign]


@pytest.fixture
def folder():
    if why := unavailable():
        pytest.skip(why)
    with tempfile.TemporaryDirectory(prefix="pc-") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def debian():
    try:
        return debian_root()
    except PowercutError as error:
        pytest.skip(f"no Debian system: {error}")


def sqlite_there(guest, folder, synchronous, expect):
    """The cell of SQLite on that machine."""
    power = {word: guest.switch.command(word) for word in ("off", "on", "status")}
    machine = {"backend": "foreign", "host": "machine", "folder": "/mnt/pc", "power": power}
    brought = folder / "program"
    brought.mkdir()
    for name in ("programs/sqlite", "programs/bank.py", "examples/powercut_program.py"):
        shutil.copy(ROOT / "workloads" / name, brought)
    scenario = brought / "foreign.yaml"
    scenario.write_text(
        f"powercut: 1\nname: foreign\nmachine: {json.dumps(machine)}\n"
        "filesystem: {type: ext4}\n"
        f"workload: {{kind: program, command: ./sqlite synchronous={synchronous}}}\n"
        "cut: {kind: power-loss, trigger: {acks: 20}}\ndeadline: 10min\n"
        f"expect: {expect}\n"
    )
    (done,) = run_scenarios([load_scenario(scenario)], seed=7, results=folder / "results").runs
    (cell,) = done.cells
    return cell


@pytest.mark.parametrize(
    ("synchronous", "verdict"), [("full", Verdict.SURVIVED), ("off", Verdict.LOSSY)]
)
def test_sqlite_on_debian(folder, debian, monkeypatch, synchronous, verdict):
    home = Home.make(folder / "home")
    monkeypatch.setenv("HOME", str(home.path))
    with ForeignGuest(folder, home, debian=debian) as guest:
        cell = sqlite_there(guest, folder, synchronous, verdict.name.lower())
        said = (folder / "console").read_text(errors="replace")[-2000:]
    reasons = "; ".join(cell.reasons)
    assert cell.verdict is verdict, f"{reasons}\n{said}"
    assert cell.trials[0].commits_acked >= 20
