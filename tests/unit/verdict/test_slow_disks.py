# SPDX-License-Identifier: Apache-2.0
"""Which disks have slow flushes: those of programs, unless somebody says how long a flush takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from powercut.model.binding import Binding
from powercut.rig.commands import capture_config
from powercut.scenario.choices import DiskModel
from powercut.scenario.settings import DiskSettings, Parameters, ProgramSettings, WalSettings

PROGRAM = ProgramSettings(kind="program", command=("/bin/program",))


@pytest.mark.parametrize(
    ("workload", "disk", "slow"),
    [
        (PROGRAM, DiskSettings(), True),
        *((PROGRAM, DiskSettings(model=model), True) for model in DiskModel),
        (PROGRAM, DiskSettings(flush_latency=0), False),
        (PROGRAM, DiskSettings(flush_latency="8ms"), False),
        (PROGRAM, DiskSettings(fua_latency="8ms"), False),
        (WalSettings(), DiskSettings(), False),
    ],
)
def test_a_program_s_disk_is_slow_now_and_then_unless_its_latency_is_set(workload, disk, slow):
    """A log of powercut's own waits for its syncs, and is measured."""
    there = Path("/disk")
    parameters = Parameters(workload=workload, disk=disk)
    made = capture_config(parameters, Binding(), base=there, log=there, sockets=None)
    assert made.slow is slow
