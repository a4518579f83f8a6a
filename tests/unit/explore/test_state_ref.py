# SPDX-License-Identifier: Apache-2.0
"""Crash states keep their names, and their files are checked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from powercut.crash.applied import Kept
from powercut.crash.states import Again, CrashState, Move, StateSpace
from powercut.explore.state_images import StateImages
from powercut.model.errors import DamagedRecording, UsageError
from powercut.recording import state_ref
from powercut.store.trial_dir import TrialDir

STATE = CrashState(77, (1, 4), (Kept(4, 512, 1024),), (Move(1, 4),), policy="torn")


def trial_in(tmp_path: Path) -> TrialDir:
    return TrialDir(tmp_path, tmp_path.parent)


def test_a_state_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    trial = trial_in(tmp_path)
    name = state_ref.save(trial, STATE)
    assert state_ref.saved(trial) == (name,)
    assert state_ref.load(trial, name) == STATE
    assert state_ref.load(trial, name[:5]) == STATE
    assert state_ref.load(trial, str(state_ref.path_of(trial, name))) == STATE


def test_the_name_is_that_of_the_content_and_stays(tmp_path: Path) -> None:
    name = state_ref.state_id(STATE)
    assert name == "2250a35dcc7a"  # names that were printed once must not change
    assert state_ref.state_id(replace(STATE, policy="another")) == name
    for other in (
        replace(STATE, instant=78),
        replace(STATE, survivors=(1,)),
        replace(STATE, torn=()),
        replace(STATE, moves=()),
    ):
        assert state_ref.state_id(other) != name


def test_an_unknown_and_an_ambiguous_name_are_refused(tmp_path: Path) -> None:
    trial = trial_in(tmp_path)
    with pytest.raises(UsageError, match="no state kept"):
        state_ref.load(trial, "abc")
    for instant in range(40):
        state_ref.save(trial, CrashState(instant, ()))
    first = [name[0] for name in state_ref.saved(trial)]
    twice = next(digit for digit in first if first.count(digit) > 1)
    with pytest.raises(UsageError, match="more than one"):
        state_ref.load(trial, twice)


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        '{"format": "powercut-state/2"}',
        '{"format": "powercut-state/1"}',
        json.dumps(state_ref.serialise(STATE) | {"instant": "soon"}),
        json.dumps(state_ref.serialise(STATE) | {"survivors": [1.5]}),
        json.dumps(state_ref.serialise(STATE) | {"torn": [[1, 2]]}),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(text)
    with pytest.raises(DamagedRecording, match=r"state\.json"):
        state_ref.load(trial_in(tmp_path), str(path))


def test_a_file_under_another_name_is_refused(tmp_path: Path) -> None:
    trial = trial_in(tmp_path)
    name = state_ref.save(trial, STATE)
    state_ref.path_of(trial, name).rename(state_ref.path_of(trial, "0" * 12))
    with pytest.raises(DamagedRecording, match=name):
        state_ref.load(trial, "0" * 12)


def test_a_torn_state_that_was_cut_again_has_what_its_recovery_wrote(world) -> None:
    """And not the last write of the recording in its place."""
    made = world.disk()
    made.write(0, b"a" * 1024, at=10, done=20)
    made.write(8192, b"b" * 512, at=30, done=40)
    space = StateSpace(made.timeline())
    again = Again(((4096, b"r" * 512),))
    state = CrashState(50, (0,), torn=(Kept(0, 0, 512),), again=again)
    writes = [(w.offset, w.length, bytes(w.data)) for w in StateImages(space).writes(state)]
    assert writes == [(0, 512, b"a" * 512), (4096, 512, b"r" * 512)]
    applied = [(w.offset, w.length, bytes(w.data)) for w in space.image_writes(state)]
    assert applied == writes
