# SPDX-License-Identifier: Apache-2.0
"""What a User-Mode Linux has shown to the plan that it follows next: no kernel needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from powercut.model.errors import HostError
from powercut.model.failure import Failure
from powercut.model.observation import Observation
from powercut.recover.plan import RecoveryPlan
from powercut.recover.port import ImageWrite
from powercut.recover.uml.engine import UmlEngine
from powercut.recover.uml.kernel import UmlKernel

WRECK = (ImageWrite(0, 4096, None),)
REFUSED = Observation((), recovered=False, complete=True, cause=Failure.MOUNT_REFUSED)


def plan(options: str, reader: str) -> RecoveryPlan:
    return RecoveryPlan.of("xfs", options, "/mnt", (reader,))


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UmlEngine:
    """One that mounts its base without options, and nothing with any; no state of `WRECK`."""
    base = tmp_path / "base"
    base.write_bytes(bytes(8192))
    kernel = UmlKernel("host", Path("linux"), Path("modules"))
    engine = UmlEngine(base, plan("", "one"), kernel=kernel)

    def ask(writes, timeout_s, flags):
        return REFUSED if writes or engine._plan.mount_options else Observation(())

    monkeypatch.setattr(engine, "_ask", ask)
    return engine


def test_that_it_has_mounted_counts_for_a_plan_with_the_same_mount(engine):
    assert engine.recover((), timeout_s=1).recovered
    engine.follow(plan("", "two"), timeout_s=1)
    assert engine.recover(WRECK, timeout_s=1) == REFUSED


def test_that_it_has_mounted_says_nothing_of_other_options(engine):
    """Else a mount that refuses its options for any disk would be held against the state."""
    assert engine.recover((), timeout_s=1).recovered
    engine.follow(plan("nonsense", "one"), timeout_s=1)
    with pytest.raises(HostError):
        engine.recover(WRECK, timeout_s=1)
