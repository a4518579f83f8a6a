# SPDX-License-Identifier: Apache-2.0
"""The verdict on a captured folder, made by hand."""

from __future__ import annotations

from powercut.model.reached import Reached
from powercut.model.verdict import Verdict
from powercut.store.exploration import ExploreCoverage, ExploreResult
from powercut.store.folder import CaptureResult

EXPLORED = ExploreResult(
    powercut="1", scenario="capture", cell="run", trial=1, engine="check", model="exact",
    policies=(), at=(), budget="32", prune="bytes", seed=7, jobs=1, seconds=2.0,
    coverage=ExploreCoverage(
        instants=1, instants_all=1, legal_log2=2.0, distinct=32, recovered=3, pruned=29,
        pruned_rerun=0, repeated=0, by_policy={}, lossy=31, exhausted=False, not_looked_at="",
    ),
    findings=(), verdict=Verdict.LOSSY,
)  # fmt: skip
RESULT = CaptureResult(
    verdict=Verdict.LOSSY, promise="journal", attempted=21, acknowledged=20, start_ns=0, run_s=1.0,
    writes=20, syncs=0, changes=0, state_s=60.0, reached=Reached(20, 80, 1.0), explored=EXPLORED,
)  # fmt: skip
