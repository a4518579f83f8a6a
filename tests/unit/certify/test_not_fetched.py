# SPDX-License-Identifier: Apache-2.0
"""Recordings that lie on the hosts of a fleet are not gone: it is said where they are."""

from __future__ import annotations

import pytest

from powercut.certify.recordings import missing_problems, not_fetched, on_hosts
from powercut.store.place import Place, write_place
from powercut.store.trial_dir import TrialDir


@pytest.fixture
def missing(tmp_path):
    """Two on beta, one on alpha, and one that nobody knows of."""
    made = []
    for number, host in enumerate(("beta", "alpha", "beta", "")):
        trial = TrialDir(tmp_path / f"t{number}", tmp_path)
        trial.path.mkdir()
        if host:
            write_place(trial.path, Place(host=host, folder=f"runs/{number}", seconds=1.0))
        made.append(trial)
    return made


def test_those_on_hosts_and_those_that_are_gone_are_told_apart(missing):
    assert not_fetched(missing) == missing[:3]
    assert on_hosts(missing[:3]) == "on alpha 1, beta 2"
    there, gone = missing_problems(missing, 9)
    assert there.startswith("3 of 9 recordings were not fetched, and cannot be judged again here: ")
    assert "`powercut import`" in there
    assert "t0, t1, t2" in there
    assert gone.startswith("1 of 9 recordings are gone")
    assert "t3" in gone


def test_without_a_fleet_nothing_is_said_of_one(missing):
    (gone,) = missing_problems(missing[3:], 9)
    assert "import" not in gone
    assert list(missing_problems([], 9)) == []
