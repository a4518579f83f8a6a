# SPDX-License-Identifier: Apache-2.0
"""A second look at a recording counts the states that the first one counted, on a fake machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_machine import Behaviour, FakeBackend

from powercut.explore.explorer import explore
from powercut.explore.trial import RecoveredStates, as_before, wanted_by
from powercut.model.verdict import Verdict
from powercut.paths import CACHE
from powercut.recording.sealed import SealedTrial
from powercut.rig.engine_shelf import EngineShelf
from powercut.rig.rig import Rig
from powercut.scenario.plan import Trial, Trigger, TriggerKind
from powercut.scenario.settings import (
    CutSettings,
    DiskSettings,
    ExploreSettings,
    FilesystemSettings,
    Parameters,
    WalSettings,
)
from powercut.store.exploration import ExploreResult, read_exploration
from powercut.store.trial_dir import TrialDir
from powercut.trial.job import TrialJob
from powercut.trial.record import record_trial
from powercut.verdict.judge import verdict_of

FEW = 8


def recorded(folder: Path, *, syncs: bool = True, **disk: str) -> TrialDir:
    """A run of 20 acknowledged records on a bare disk."""
    parameters = Parameters(
        disk=DiskSettings(size=4 << 20, **disk),
        filesystem=FilesystemSettings(type="raw"),
        workload=WalSettings(layout="raw", record=512, align=0, capacity=4096 * 512),
        cut=CutSettings(kind="power-loss", policy="drop"),
        deadline="60s",
        explore=ExploreSettings(budget=str(FEW)),
    )
    trial = TrialDir(folder / "run" / "cells" / "cell" / "0001", folder / "run")
    trial.path.mkdir(parents=True)
    rig = Rig(CACHE, FakeBackend(behaviour=Behaviour(hangs_after=20, syncs=syncs)))
    made = Trial(1, 7, 8, Trigger(TriggerKind.ACKS, 20))
    job = TrialJob("fake", "cell", parameters, made, bytes(range(16)))
    record_trial(rig, job, trial, lambda _: None, EngineShelf())
    return trial


def said(seen: ExploreResult) -> dict[str, object]:
    """All that an exploration comes to, but for how long it took."""
    return seen.model_dump(exclude={"seconds", "seconds_in_all", "processor_seconds"})


@pytest.mark.parametrize(
    ("disk", "syncs", "verdict"),
    [
        ({}, True, Verdict.SAFE),
        ({}, False, Verdict.LOSSY),
        ({"flush": "ignored", "fua": "ignored"}, True, Verdict.LOSSY),
    ],
    ids=["honest", "no-sync", "lying"],
)
def test_verify_counts_the_states_of_the_run(tmp_path, disk, syncs, verdict):
    trial = recorded(tmp_path, syncs=syncs, **disk)
    first = verdict_of(SealedTrial(trial), RecoveredStates())
    assert first.states is not None
    assert first.states.states == FEW
    kept = read_exploration(trial)
    assert kept is not None
    assert kept.verdict is verdict

    again = verdict_of(SealedTrial(trial), RecoveredStates(again=True))
    assert (again.verdict, again.states) == (first.verdict, first.states)
    assert again.findings == first.findings

    record = trial.read_record()
    wanted = wanted_by(record.parameters, record.trial.seed)
    assert wanted is not None
    wanted = as_before(SealedTrial(trial), wanted)
    assert bool(wanted.named) is (verdict is Verdict.LOSSY)
    assert said(explore(SealedTrial(trial), wanted, keep=False)) == said(kept)
