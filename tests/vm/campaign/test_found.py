# SPDX-License-Identifier: Apache-2.0
"""What docs/findings says of other software is so with the versions at hand."""

from __future__ import annotations

import pytest

from powercut.model.verdict import FindingKind, LsnRange, Origin, Verdict
from powercut.paths import SCENARIOS


@pytest.mark.nightly
def test_ext4_does_not_mount_when_its_fast_commit_area_is_full(run) -> None:
    result = run(SCENARIOS / "found" / "ext4-fast-commit.yaml")
    cells = {cell.cell: cell for cell in result.cells}
    assert list(cells) == ["full", "one-left", "next-full-commit", "without"]
    assert result.exit_status == 0
    (trial,) = cells["full"].trials
    (found,) = trial.findings
    assert (found.kind, found.verdict) == (FindingKind.NOT_RECOVERED, Verdict.LOSSY)
    assert trial.lost_lsns == (LsnRange(1, 16),)
    assert trial.exposure is not None
    assert trial.exposure.records == 0, "every byte was durable"
    (later,) = cells["next-full-commit"].trials
    assert {found.kind for found in later.findings} == {FindingKind.NOT_RECOVERED}
    assert all(f.origin is Origin.EXPLORATION for f in later.findings), "its cut spared all"
    for name in ("one-left", "without"):
        assert cells[name].verdict is Verdict.SAFE, name
