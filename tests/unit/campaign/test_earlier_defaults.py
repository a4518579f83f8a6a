# SPDX-License-Identifier: Apache-2.0
"""An earlier run, made when a default was another, is judged by the settings that it took."""

from __future__ import annotations

import runs_by_hand

from powercut.campaign.verify import verify
from powercut.recording.trial_recording import open_trial
from powercut.scenario.defaults import EARLIER_DEFAULTS


def test_an_earlier_run_verifies_unchanged(tmp_path):
    run = runs_by_hand.make_run(tmp_path, defaults=EARLIER_DEFAULTS)
    then, now = run.read_verdict(), verify(run.path)
    assert {cell.parameters.disk.atomic_unit for cell in now.cells} == {512}
    assert {open_trial(trial).space.unit for trial in run.trials()} == {512}
    for before, after in zip(then.cells, now.cells, strict=True):
        assert (before.parameters, before.verdict) == (after.parameters, after.verdict)
        assert before.lost_lsns == after.lost_lsns
        assert [trial.verdict for trial in before.trials] == [t.verdict for t in after.trials]


def test_a_run_of_today_says_what_it_took(tmp_path):
    run = runs_by_hand.make_run(tmp_path)
    assert {cell.parameters.disk.atomic_unit for cell in verify(run.path).cells} == {4096}
    assert {open_trial(trial).space.unit for trial in run.trials()} == {4096}
