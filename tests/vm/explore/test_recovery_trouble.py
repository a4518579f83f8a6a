# SPDX-License-Identifier: Apache-2.0
"""A guest that could not be given its disk has not shown that the disk is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from powercut.checkers.wal import check_log
from powercut.disk.base import ensure_base_image
from powercut.model.failure import Failure
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.paths import CACHE
from powercut.recover.plan import Mount, Read
from powercut.recover.port import ImageWrite
from powercut.rig import commands
from powercut.rig.guest_engine import GuestEngine
from powercut.scenario.settings import AcceleratorChoice, MachineSettings, Parameters
from powercut.workload.wal.commands import wal_layout

RUN_ID = bytes(range(16))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"device": "vdz"}, "wait for block device /dev/vdz"),  # whose driver did not find it
        (
            {"steps": (Mount("xfs", "o" * 600, "/mnt"), Read(("/bin/true",)))},
            "mount options",
        ),  # the agent gives up before mount(2)
    ],
)
def test_what_fails_before_the_mount_is_no_loss(change, reason):
    parameters = Parameters()
    plan = replace(commands.recovery_plan(parameters, RUN_ID), **change)
    base = ensure_base_image(commands.base_image(parameters), CACHE)
    with GuestEngine(base, parameters, plan) as engine:
        engine.start(timeout_s=60)
        observation = engine.recover([], timeout_s=120)
    assert reason in observation.failure
    assert not observation.complete
    (finding, *_) = check_log(LsnRange(1, 5), 5, observation, wal_layout(parameters))
    assert (finding.kind, finding.verdict) == (FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE)


def test_a_state_is_recovered_with_what_works_here_whatever_accelerator_its_recording_asked_for():
    machine = MachineSettings(accelerator=AcceleratorChoice.KVM)
    parameters = Parameters(machine=machine)
    plan = commands.recovery_plan(parameters, RUN_ID)
    base = ensure_base_image(commands.base_image(parameters), CACHE)
    with GuestEngine(base, parameters, plan) as engine:
        engine.start(timeout_s=60)
        observation = engine.recover([], timeout_s=120)
        assert engine.boots == 1
    assert observation.recovered


def test_a_disk_that_lost_its_file_system_did_not_recover():
    """Three boots: it does not come back twice, and the base image does."""
    parameters = Parameters()
    plan = commands.recovery_plan(parameters, RUN_ID)
    base = ensure_base_image(commands.base_image(parameters), CACHE)
    with GuestEngine(base, parameters, plan) as engine:
        engine.start(timeout_s=60)
        observation = engine.recover([ImageWrite(0, 1 << 20, None)], timeout_s=120)
        assert engine.boots == 3
    assert "does not mount" in observation.failure
    assert (observation.cause, observation.complete) == (Failure.MOUNT_REFUSED, True)
    assert not observation.recovered


def test_a_disk_that_never_had_a_file_system_has_not_lost_it(tmp_path):
    parameters = Parameters()
    empty = tmp_path / "empty.img"
    with empty.open("wb") as file:
        file.truncate(parameters.disk.size)
    with GuestEngine(empty, parameters, commands.recovery_plan(parameters, RUN_ID)) as engine:
        engine.start(timeout_s=60)
        observation = engine.recover([], timeout_s=120)
    assert (observation.cause, observation.complete) == (Failure.MOUNT_UNPROVED, False)
