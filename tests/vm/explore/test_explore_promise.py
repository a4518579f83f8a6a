# SPDX-License-Identifier: Apache-2.0
"""Honest disks lose nothing under what today's disks promise; under less, superblocks are torn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from powercut.campaign.runner import run_scenarios
from powercut.cli.lookup import find_trials
from powercut.crash.explore import InstantKind
from powercut.explore.explorer import explore
from powercut.explore.request import Budget, ExploreRequest
from powercut.model.verdict import FindingKind, Verdict
from powercut.recording.sealed import SealedTrial
from powercut.recover.uml.engine import unavailable as no_uml
from powercut.store.exploration import read_exploration

pytestmark = pytest.mark.skipif(bool(no_uml()), reason="; ".join(no_uml()))

SCENARIO = """
powercut: 1
name: promised
controls: none
explore: {budget: off}  # the test does
workload: {record: 512, streams: 2, sync: fdatasync}
cut: {trigger: {acks: 30}}
cells:
  - {name: xfs, filesystem.type: xfs}
  - {name: ext4, filesystem.type: ext4}
  - name: btrfs  # without a log tree each fsync changes more than one sector of the superblock
    filesystem.type: btrfs
    filesystem.mount: [max_inline=0, notreelog]
    disk.size: 128 MiB
"""
NIGHTLY = pytest.mark.nightly
TORN = ExploreRequest(policies=("torn",), at=(InstantKind.SUBMISSION,), budget=Budget(states=200))


def recording_of(cell, folder):
    """The recording of one cell, made now."""
    scenario = folder / "promised.yaml"
    scenario.write_text(SCENARIO)
    outcome = run_scenarios([scenario], seed=3, results=folder, only=[cell])
    (trial,) = find_trials(Path(outcome.runs[0].result_directory))
    return trial


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        pytest.param("xfs", "", marks=NIGHTLY),  # its superblock is one sector
        ("ext4", "invalid superblock checksum"),
        pytest.param("btrfs", "superblock checksum mismatch", marks=NIGHTLY),
    ],
)
def test_a_torn_superblock_takes_a_disk_that_promises_less(tmp_path, cell, said):
    trial = recording_of(cell, tmp_path)
    promised = explore(SealedTrial(trial), TORN)
    assert (promised.verdict, promised.findings) == (Verdict.SAFE, ())
    assert promised.atomic_unit == 4096
    sectors = explore(SealedTrial(trial), replace(TORN, atomic_unit=512))
    assert sectors.atomic_unit == 512
    if not said:
        assert (sectors.verdict, sectors.findings) == (Verdict.SAFE, ())
        return
    (found,) = sectors.findings
    assert (found.kind, found.verdict) == (FindingKind.NOT_RECOVERED, Verdict.LOSSY)
    assert found.torn_within == found.states >= 1
    assert said in found.examples[0].message
    assert found.examples[0].confirmed == "yes"
    assert read_exploration(trial) == promised, "what is true of another disk is not kept"
