# SPDX-License-Identifier: Apache-2.0
"""qemu-storage-daemon between QEMU and the disk: the export that says write-through and is not."""

from __future__ import annotations

import shutil

import pytest

from powercut.model.verdict import LsnRange, Verdict
from powercut_extras.suites.daemon import PROGRAM

pytestmark = pytest.mark.skipif(shutil.which(PROGRAM) is None, reason=f"{PROGRAM} is missing")
CUT = "cut: {trigger: {acks: 30}}\ncontrols: none\nexplore: {budget: 2}\n"


@pytest.mark.nightly
def test_vhost_user_blk_loses_everything_that_was_acknowledged(run):
    (cell,) = run(CUT + "machine: {export: vhost-user-blk}\n").cells
    (trial,) = cell.trials
    assert trial.verdict is Verdict.LOSSY
    assert trial.lost_lsns == (LsnRange(1, trial.commits_acked),)


@pytest.mark.nightly
def test_it_keeps_everything_once_the_guest_flushes(run):
    (cell,) = run(CUT + "machine: {export: vhost-user-blk, config_wce: off}\n").cells
    (trial,) = cell.trials
    assert trial.findings == ()
    assert trial.exposure.records == 0
