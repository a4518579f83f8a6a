# SPDX-License-Identifier: Apache-2.0
"""What tests of runs on several hosts share."""

from __future__ import annotations

import pytest
from fake_machine import FAKE
from far_runs import all_together, hosts_in

from powercut.scenario.machines import MACHINES


@pytest.fixture(scope="module", autouse=True)
def _together():
    """And what becomes of them is seen soon."""
    with all_together() as patch:
        for room in ("roster", "work"):
            patch.setattr(f"powercut.cluster.{room}._LOOK_S", 0.05)
        yield


@pytest.fixture
def fake_machine(monkeypatch):
    monkeypatch.setitem(MACHINES, "fake", FAKE)


@pytest.fixture
def no_patience(monkeypatch):
    """Workers that are gone do not come back; there is room on every disk."""
    monkeypatch.setattr("powercut.cluster.roster.RETURN_S", 0.0)
    monkeypatch.setattr("powercut.cluster.run.ROOM", 0)


@pytest.fixture
def hosts(tmp_path):
    return hosts_in(tmp_path)
