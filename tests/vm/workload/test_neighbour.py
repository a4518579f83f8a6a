# SPDX-License-Identifier: Apache-2.0
"""A recorded kernel is at work: a neighbour commits beside the program, and some flushes are slow.

Who relies on being alone, or on syncs that are quick, is found; the twins are SAFE.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import plain_word

from powercut.campaign.runner import run_scenarios
from powercut.model.operations import Pressed
from powercut.model.timeline import RequestKind
from powercut.model.units import NEVER
from powercut.paths import PROGRAMS
from powercut.recording.sealed import open_trial
from powercut.recover.uml.boot import unavailable
from powercut.scenario.load import load_scenario
from powercut.store.layout import ResultDir

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
]

SLOW_NS = 50_000_000

SCENARIO = """
powercut: 1
name: lucky
workload: {{kind: program, command: {lucky} way=unlink honest=1, at_most: 2min}}
filesystem: {{type: ext4}}
disk: {{size: 64 MiB, model: none}}
cut: {{trigger: {{acks: 60}}}}
explore: {{budget: 60}}
controls: none
deadline: 5min
cells:
  - {{name: unlink-honest}}
  - {{name: unlink-fault, workload.command: {lucky} way=unlink, expect: lossy}}
  - {{name: flag-honest, workload.command: {lucky} way=flag honest=1, workload.writeback: usual}}
  - name: flag-fault
    workload.command: {lucky} way=flag
    workload.writeback: usual
    expect: lossy
"""


def test_who_relies_on_luck_is_found_and_the_record_says_what_was_done(tmp_path: Path) -> None:
    """Without controls none is SAFE; what is honest is said to lose nothing."""
    text = SCENARIO.format(lucky=plain_word(PROGRAMS / "lucky"))
    (tmp_path / "lucky.yaml").write_text(text)
    scenario = load_scenario(tmp_path / "lucky.yaml")
    (result,) = run_scenarios([scenario], seed=5, results=tmp_path, jobs=2).runs
    assert {cell.cell: cell.trials[0].verdict.name for cell in result.cells} == {
        "unlink-honest": "SAFE",
        "unlink-fault": "LOSSY",
        "flag-honest": "SAFE",
        "flag-fault": "LOSSY",
    }
    told = {cell.cell: " ".join(cell.trials[0].untested) for cell in result.cells}
    for trial in ResultDir.open(Path(result.result_directory)).trials():
        record, requests = trial.read_record(), open_trial(trial).timeline.requests
        done = (requests.kind == RequestKind.FLUSH) & (requests.completed_ns != NEVER)
        took = (requests.completed_ns - requests.submitted_ns)[done]
        assert len(took) >= 60
        assert (took >= SLOW_NS).sum() >= len(took) // 50, "of each 50 flushes one is slow"
        if record.cell.startswith("flag"):
            assert record.pressed == Pressed()
            assert "another's sync commits before" in told[record.cell]
        else:
            assert record.pressed.commits >= 5
            assert record.pressed.writebacks >= 100
            assert "another's sync commits before" not in told[record.cell]
