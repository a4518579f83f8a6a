# SPDX-License-Identifier: Apache-2.0
"""A newer User-Mode Linux, fetched with its own libc, recovers what the host's recovers."""

from __future__ import annotations

from pathlib import Path

import pytest

from powercut.campaign.runner import run_scenarios
from powercut.cli.lookup import find_trials
from powercut.explore.explorer import explore
from powercut.explore.request import Budget, ExploreRequest
from powercut.model.verdict import FindingKind, LsnRange
from powercut.paths import SCENARIOS
from powercut.recording.sealed import SealedTrial
from powercut.recover.uml.engine import unavailable

pytestmark = pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable()))


@pytest.mark.nightly
def test_kernels_of_two_suites_agree_that_ext4_does_not_mount(tmp_path):
    """docs/findings/ext4-fast-commit.md: Linux 6.1 says EIO, later ones EUCLEAN."""
    outcome = run_scenarios(
        [SCENARIOS / "found" / "ext4-fast-commit.yaml"], seed=1, results=tmp_path, only=["full"]
    )
    (trial,) = find_trials(Path(outcome.runs[0].result_directory))
    said = {}
    for kernel in ("host", "trixie"):
        wanted = ExploreRequest(
            policies=("durable-only",), budget=Budget(states=100), confirm=False, kernel=kernel
        )
        result = explore(SealedTrial(trial), wanted)
        assert result.engine == "uml"
        assert result.engine_kernel.startswith(f"{kernel} (")
        (found,) = result.findings
        assert (found.kind, found.lsns) == (FindingKind.NOT_RECOVERED, (LsnRange(1, 16),))
        said[kernel] = found.examples[0].message
    assert "corrupted journal superblock" in said["trixie"]
    assert "Structure needs cleaning" in said["trixie"]
