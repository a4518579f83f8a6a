# SPDX-License-Identifier: Apache-2.0
"""A loss is confirmed by the kernel that was recorded, not by whatever this host has today."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from powercut.model.errors import HostError
from powercut.recording.materialize import cut_state, open_recording
from powercut.store.layout import ResultDir
from powercut.witness.judge import judge_in_guest

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
    file = trial.path / "trial.json"
    told = json.loads(file.read_text())
    told["versions"]["kernel_release"] = "4.19.0-27-amd64"
    file.write_text(json.dumps(told))
    with pytest.raises(HostError, match=r"recorded with Linux 4\.19\.0-27-amd64"):
        judge_in_guest(recording, state)
    told["versions"] = {}
    file.write_text(json.dumps(told))
    with pytest.raises(HostError, match="does not say which kernel"):
        judge_in_guest(recording, state)
