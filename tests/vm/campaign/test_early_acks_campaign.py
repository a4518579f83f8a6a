# SPDX-License-Identifier: Apache-2.0
"""Early acks on real guests under load: each is found, and no honest one is taken for it.

By name only: `pytest -m campaign tests/vm/campaign/test_early_acks_campaign.py`, about 20 minutes.
"""

from __future__ import annotations

import multiprocessing
import os
from contextlib import contextmanager

import pytest

from powercut.model.operations import AckBasis
from powercut.model.verdict import FindingKind, LsnRange, Verdict

pytestmark = pytest.mark.campaign

SYSTEMS = {
    "raw": "filesystem: {type: raw}",
    "xfs": "filesystem: {type: xfs}",
    "ext4": "filesystem: {type: ext4}",
}
AHEAD_US = (20, 50, 100, 200, 500, 1000, 2000, 5000)


def _spin() -> None:
    while True:
        pass


@contextmanager
def load():
    """Two busy processes for each processor."""
    context = multiprocessing.get_context("spawn")
    burners = [context.Process(target=_spin, daemon=True) for _ in range(2 * (os.cpu_count() or 1))]
    for burner in burners:
        burner.start()
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.join()


def scenario(system: str, *, plant: str, acks: int, trials: int = 1) -> str:
    return (
        f"{SYSTEMS[system]}\n"
        f'workload: {{record: 512, sync: fdatasync, plant: "{plant}"}}\n'
        f"cut: {{trigger: {{acks: {acks}}}}}\ntrials: {trials}\ncontrols: none\n"
        f"expect: {'safe' if plant == 'none' else 'lossy'}\n"
    )


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("ahead_us", AHEAD_US)
def test_single_acks_before_their_sync_are_found_under_load(run, system, ahead_us):
    with load():
        (cell,) = run(scenario(system, plant=f"ack-ahead:{ahead_us}", acks=550)).cells
    (trial,) = cell.trials
    (exposed,) = [f for f in trial.findings if f.kind is FindingKind.EXPOSED]
    struck = tuple(LsnRange(lsn, lsn) for lsn in range(100, trial.commits_acked + 1, 100))
    assert exposed.lsns == struck
    assert trial.acks.basis is AckBasis.CLOCK


@pytest.mark.parametrize("system", SYSTEMS)
def test_two_early_acks_are_found_in_20_of_20_runs(run, system):
    (cell,) = run(scenario(system, plant="ack-ahead:200", acks=250, trials=20)).cells
    verdicts = [trial.verdict for trial in cell.trials]
    assert verdicts == [Verdict.LOSSY] * 20
    for trial in cell.trials:
        assert trial.exposure.lsns == (LsnRange(100, 100), LsnRange(200, 200))


@pytest.mark.parametrize("system", SYSTEMS)
def test_no_honest_ack_of_4000_is_called_early_under_load(run, system):
    with load():
        (cell,) = run(scenario(system, plant="none", acks=1000, trials=4)).cells
    for trial in cell.trials:
        assert trial.exposure.records == 0
        assert trial.acks.basis is AckBasis.CLOCK
        assert trial.acks.unproved == ()
        assert not any(finding.verdict is Verdict.LOSSY for finding in trial.findings)
