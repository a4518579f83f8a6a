# SPDX-License-Identifier: Apache-2.0
"""A guest that could not be given its disk has not shown that the disk is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from powercut.checkers.wal import check_log
from powercut.disk.base import ensure_base_image
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.paths import CACHE
from powercut.rig import commands
from powercut.rig.guest_engine import GuestEngine
from powercut.scenario.settings import Parameters

RUN_ID = bytes(range(16))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"device": "vdz"}, "wait for block device /dev/vdz"),  # whose driver did not find it
        ({"mount_options": "o" * 600}, "mount options"),  # the agent gives up before mount(2)
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
    (finding, *_) = check_log(LsnRange(1, 5), 5, observation, commands.wal_layout(parameters))
    assert (finding.kind, finding.verdict) == (FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE)


def test_a_disk_without_a_file_system_did_not_recover(tmp_path):
    parameters = Parameters()
    empty = tmp_path / "empty.img"
    with empty.open("wb") as file:
        file.truncate(parameters.disk.size)
    with GuestEngine(empty, parameters, commands.recovery_plan(parameters, RUN_ID)) as engine:
        engine.start(timeout_s=60)
        observation = engine.recover([], timeout_s=120)
    assert "does not mount" in observation.failure
    assert observation.complete
    assert not observation.recovered
