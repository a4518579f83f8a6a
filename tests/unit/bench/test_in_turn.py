# SPDX-License-Identifier: Apache-2.0
"""Ways to explore, one after the other: those that find different things in the same states are no
measurement."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from bench import in_turn
from bench.in_turn import Explored, Way, explore_in_turn
from powercut.model.errors import HostError
from powercut.store.trial_dir import TrialDir

TURNS = 3
EXPLORES = f"""
import json, os, sys
from pathlib import Path
here = Path(os.environ["PYTHONPATH"]).parent
asked = json.loads(sys.argv[1])
for turn in range({TURNS}):
    print("turn", flush=True)
    if not sys.stdin.readline():
        sys.exit("nobody listens")
    with Path(asked["trial"], "turns").open("a") as file:
        file.write(here.name + " ")
print((here / "found.json").read_text(), flush=True)
"""
NOTHING = {"verdict": "SAFE", "states": 90, "lossy": 0, "seconds": 2.0, "processor_seconds": 1.5}
A_LOSS = NOTHING | {"verdict": "LOSSY", "lossy": 1}
FEWER = NOTHING | {"states": 89}
FASTER = NOTHING | {"seconds": 1.0, "processor_seconds": 0.5}


@pytest.fixture
def turns(tmp_path, monkeypatch):
    """Explores in turn in ways that find what is given, each called by its checkout."""
    (tmp_path / "explores.py").write_text(EXPLORES)
    fake = SimpleNamespace(__file__=str(tmp_path / "explores.py"))
    monkeypatch.setattr(in_turn, "explore_turns", fake)

    def explored(*, seeds=(0, 0), **found) -> list[Explored]:
        ways = []
        for (name, what), seed in zip(found.items(), seeds, strict=True):
            (tmp_path / name).mkdir()
            if what is not None:
                (tmp_path / name / "found.json").write_text(json.dumps(what))
            ways.append(Way(name, 100, seed=seed, checkout=tmp_path / name))
        return explore_in_turn(TrialDir(tmp_path, tmp_path), ways)

    return explored


def test_ways_that_find_the_same_are_measured_a_turn_each(turns, tmp_path):
    old, new = turns(old=NOTHING, new=FASTER)
    assert (old.states_per_processor_s, new.states_per_processor_s) == (60, 180)
    assert (tmp_path / "turns").read_text().split() == ["old", "new"] * TURNS


@pytest.mark.parametrize(
    ("other", "said"), [(A_LOSS, r"\('LOSSY', 90, 1\)"), (FEWER, r"\('SAFE', 89, 0\)")]
)
def test_one_that_finds_something_else_in_the_same_states_is_refused(turns, other, said):
    words = rf"in the same states of .* old found \('SAFE', 90, 0\), and new found {said}"
    with pytest.raises(HostError, match=words):
        turns(old=NOTHING, new=other)


def test_other_states_may_hold_other_things(turns):
    assert [one.lossy for one in turns(old=NOTHING, new=A_LOSS, seeds=(1, 2))] == [0, 1]


def test_one_that_fails_is_no_measurement(turns, capfd):
    with pytest.raises(HostError, match="the exploration of new failed"):
        turns(old=NOTHING, new=None)
    assert "found.json" in capfd.readouterr().err
