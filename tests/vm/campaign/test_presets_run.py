# SPDX-License-Identifier: Apache-2.0
"""Presets do to real guests what they say: exact records, and what the disk saw of flushes."""

from __future__ import annotations

from pathlib import Path

import pytest

from powercut.campaign.runner import run_scenarios
from powercut.model.timeline import RequestKind
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.paths import SCENARIOS
from powercut.recording.sealed import open_trial
from powercut.scenario.load import parse_scenario, preset_text
from powercut.store.layout import ResultDir

LOST = {FindingKind.LOST, FindingKind.EXPOSED}


def wire(result, cell):
    """How many writes, FUA writes and flushes the disk saw until the cut."""
    (directory,) = [
        trial
        for trial in ResultDir.open(Path(result.result_directory)).trials()
        if trial.read_record().cell == cell and trial.read_record().control is None
    ]
    requests = open_trial(directory).evidence.timeline.requests
    writes = requests.kind == RequestKind.WRITE
    flushes = int((requests.kind == RequestKind.FLUSH).sum())
    return int((writes & ~requests.fua).sum()), int((writes & requests.fua).sum()), flushes


def lossy_to_the_record(cell):
    assert cell.verdict is Verdict.LOSSY
    everything = (LsnRange(1, cell.commits_acked),)
    assert cell.lost_lsns == everything
    assert cell.exposure.lsns == everything
    assert set(cell.findings) == LOST


def safe(cell, controls):
    assert cell.verdict is Verdict.SAFE
    assert cell.commits_lost == 0
    assert cell.findings == {}
    assert [control.behaved for control in cell.controls] == [True] * controls


ACKS = 60
"""As exact as by default, in a fifth of the time."""

CUT = f"cut: {{trigger: {{acks: {ACKS}}}}}\n"
FEW = "\nexplore: {budget: 2}\n"
"""Of the states on an image format each takes two guests, and seconds."""


def test_virtualbox_lies_and_its_twin_does_not(run, tmp_path):
    scenario = tmp_path / "virtualbox-ide.yaml"
    text = (SCENARIOS / "lying" / scenario.name).read_text()
    scenario.write_text(text.replace("acks: 300", f"acks: {ACKS}") + FEW)
    result = run(scenario)
    assert result.exit_status == 0
    default, twin = result.cells
    assert default.commits_acked >= ACKS
    lossy_to_the_record(default)
    assert [control.behaved for control in default.controls] == [True]
    safe(twin, controls=2)
    assert wire(result, "default")[1:] == (0, 0), "neither FUA nor flush"
    assert wire(result, "ignore-flush-0")[2] >= ACKS
    kept = ResultDir.open(Path(result.result_directory)).scenario_copy.read_text()
    assert "preset:" not in kept
    assert "machine.no_flush: on" in kept


@pytest.mark.nightly
def test_presets_do_what_they_say(tmp_path):
    lossy = ["firecracker", "guest-write-cache", "nbd-without-flush"]
    names = [*lossy, "firecracker-writeback", "apple-containerization"]
    text, path = preset_text(names)
    scenario = parse_scenario(text + CUT + FEW, path)
    (result,) = run_scenarios([scenario], seed=1, results=tmp_path, jobs=2).runs
    assert result.exit_status == 0
    cells = {cell.cell: cell for cell in result.cells}
    for name in lossy:
        lossy_to_the_record(cells[name])
        assert wire(result, name)[1:] == (0, 0), "neither FUA nor flush"
        safe(cells[f"{name}-remedy"], controls=2)
    safe(cells["firecracker-writeback"], controls=2)
    assert wire(result, "firecracker-writeback")[2] >= ACKS
    # A drive that is not told to flush: all that stands above it obeys.
    lossy_to_the_record(cells["apple-containerization"])
    assert wire(result, "apple-containerization")[2] >= ACKS
    safe(cells["apple-containerization-remedy"], controls=2)
    # The guest switched the disk: it sends no flush, and each write is durable by itself.
    _, fua, flushes = wire(result, "guest-write-cache-remedy")
    assert fua >= ACKS
    assert flushes <= 1
