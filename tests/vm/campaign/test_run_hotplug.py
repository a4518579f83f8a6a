# SPDX-License-Identifier: Apache-2.0
"""A disk that is plugged in while its guest runs (docs/buses-and-formats.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from powercut.model.verdict import LsnRange, Verdict
from powercut.recording.sealed import open_trial
from powercut.store.layout import ResultDir

pytestmark = pytest.mark.nightly

SCENARIO = """
filesystem: {type: raw}
workload: {layout: raw, direct: true, record: 4096, align: 4096}
controls: none
machine: {hotplug: true}
cut: {trigger: {acks: 30}}
cells:
  - name: pci
  - name: unsafe
    machine.bus: virtio-scsi
    machine.aio: threads
    machine.cache: unsafe
    expect: lossy
"""


def test_a_disk_that_was_plugged_in_keeps_what_it_promised_unless_flushes_are_dropped(run):
    result = run(SCENARIO)
    honest, unsafe = (cell.trials[0] for cell in result.cells)
    assert honest.findings == ()
    assert honest.commits_acked >= 30
    assert unsafe.verdict is Verdict.LOSSY, unsafe.findings
    assert unsafe.lost_lsns == unsafe.exposure.lsns == (LsnRange(1, unsafe.commits_acked),)
    for trial in ResultDir.open(Path(result.result_directory)).trials():
        assert open_trial(trial).record.guest_facts["disks_at_boot"] == "none"
