# SPDX-License-Identifier: Apache-2.0
"""The control without syncs, of a program into which no library can be loaded."""

import subprocess
from pathlib import Path

import pytest

from powercut.campaign.runner import run_scenarios
from powercut.model.verdict import Verdict
from powercut.paths import ROOT
from powercut.recover.uml.boot import unavailable

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
]

STATIC = """
powercut: 1
name: static
filesystem: {type: ext4}
workload: {kind: program, command: ./counter}
cut: {trigger: {acks: 20}}
explore: {budget: 32}
controls: [no-sync]
cells:
  - {name: counter, expect: safe}
"""


def test_the_syncs_of_a_statically_linked_program_can_be_taken_away(tmp_path: Path) -> None:
    """No library is loaded into it that could do so: the kernel that it runs in does."""
    source = ROOT / "workloads" / "examples" / "counter.c"
    subprocess.run(["cc", "-static", "-o", tmp_path / "counter", source], check=True)
    scenario = tmp_path / "static.yaml"
    scenario.write_text(STATIC)
    (run,) = run_scenarios([scenario], seed=7, results=tmp_path / "results").runs
    (cell,) = run.cells
    assert cell.verdict is Verdict.SAFE, cell.reasons
    (control,) = cell.controls
    assert (control.kind.value, control.verdict) == ("no-sync", Verdict.LOSSY)
