# SPDX-License-Identifier: Apache-2.0
"""Controls that lose on paper only: a rig whose cut takes nothing away must not call anything safe.

On a disk that ignores flushes the analysis of the recording convicts by itself, whatever came
back.  So that a control is LOSSY does not show that a loss would be seen.
"""

from __future__ import annotations

from pathlib import Path

from powercut.campaign.verify import verify
from powercut.disk.capture import CaptureDisk
from powercut.model.contract import CutPolicy
from powercut.model.verdict import Verdict

# A kernel that is pressed writes back without a sync, and such a cut keeps that, too.
RAW = """
filesystem: {type: raw}
workload: {direct: true, align: 4096, record: 4096, sync: fdatasync, writeback: usual}
cut: {trigger: {acks: 20}}
"""


def test_a_cut_that_takes_nothing_away_is_no_control(run, monkeypatch):
    real = CaptureDisk.cut

    def keep(self, policy, seed, next_log, *, timeout_s):
        del policy
        return real(self, CutPolicy.KEEP, seed, next_log, timeout_s=timeout_s)

    monkeypatch.setattr(CaptureDisk, "cut", keep)
    result = run(RAW)
    (cell,) = result.cells
    (trial,) = cell.trials
    assert trial.findings == (), "nothing was lost, and nothing could have been"
    assert cell.verdict is Verdict.INCONCLUSIVE
    lying, no_sync = cell.controls
    assert not lying.behaved
    assert "its records came back" in lying.message
    assert no_sync.behaved, "what is in the guest's page cache only goes with any cut"
    assert verify(Path(result.result_directory)).verdict is Verdict.INCONCLUSIVE
