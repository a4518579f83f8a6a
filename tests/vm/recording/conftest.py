# SPDX-License-Identifier: Apache-2.0
"""Real recordings, made once per session."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from powercut.campaign.runner import run_scenarios
from powercut.store.results import RunResult

SCENARIO = """\
powercut: 1
name: recordings
disk: {size: 16 MiB, atomic_unit: 512, flush_latency: 10ms}  # this is made before a module's patch
workload: {record: 512, writeback: usual}  # the smallest witness is exact
cut: {trigger: {acks: 12}}
explore: {budget: 8}
cells:
  - {name: xfs, filesystem.type: xfs}
  - {name: xfs-lying, filesystem.type: xfs, disk.flush: ignored, disk.fua: ignored, expect: lossy}
  - {name: ext4-lying, filesystem.type: ext4, disk.flush: ignored, disk.fua: ignored, expect: lossy}
  - name: ext4-random
    filesystem.type: ext4
    disk.flush: ignored
    disk.fua: ignored
    cut.policy: random
    expect: lossy
  - name: raw-lying
    filesystem.type: raw
    workload.layout: raw
    disk.flush: ignored
    disk.fua: ignored
    expect: lossy
"""


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """A run with a cell for each thing that can be done with a recording."""
    for program in ("qemu-system-x86_64", "nbdkit", "linux.uml"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed; `powercut doctor` says how to get it")
    folder = tmp_path_factory.mktemp("recordings")
    (folder / "scenario.yaml").write_text(SCENARIO)
    (result,) = run_scenarios([folder / "scenario.yaml"], seed=7, results=folder / "results").runs
    return result


@pytest.fixture(scope="session")
def trial_of(recorded: RunResult):
    """The folder of a cell's recording."""

    def find(cell: str) -> Path:
        (found,) = [each for each in recorded.cells if each.cell == cell]
        return Path(recorded.result_directory) / found.trials[0].result_directory

    return find
