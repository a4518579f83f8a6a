# SPDX-License-Identifier: Apache-2.0
"""A loss is confirmed by the kernel that was recorded, not by whatever this host has today."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from powercut.explore.state_judge import judge_in_guest
from powercut.model.errors import HostError
from powercut.recording.disk import cut_state
from powercut.recording.open_recording import open_recording
from powercut.store.layout import ResultDir

LYING = """
filesystem: {type: ext4}
disk: {flush: ignored, fua: ignored}
cut: {trigger: {acks: 10}}
controls: none
expect: lossy
"""


def test_another_kernel_confirms_nothing(run):
    result = run(LYING)
    (trial,) = ResultDir.open(Path(result.result_directory)).trials()
    recording = open_recording(trial.path)
    state = cut_state(recording.space)
    assert set(range(1, 11)) <= judge_in_guest(recording, state).lsns
    then = recording.system
    other = {**then.versions, "kernel_release": "4.19.0-27-amd64"}
    for versions, why in (
        (other, r"recorded with Linux 4\.19\.0-27-amd64"),
        ({}, "does not say which kernel"),
    ):
        changed = replace(recording, system=replace(then, versions=versions))
        with pytest.raises(HostError, match=why):
            judge_in_guest(changed, state)
