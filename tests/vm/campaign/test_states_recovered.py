# SPDX-License-Identifier: Apache-2.0
"""A trial's verdict rests on states that were recovered, whatever its cut spared."""

from __future__ import annotations

from pathlib import Path

import pytest

from powercut.campaign.verify import verify
from powercut.model.verdict import Origin, Verdict
from powercut.recover.uml.boot import unavailable

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
]


def only(result):
    (cell,) = result.cells
    (trial,) = cell.trials
    return trial


@pytest.mark.nightly
def test_nvme_on_xfs_is_convicted_at_any_instant(run):
    """QEMU's controller ignores FUA: at each ack the block that commits it is still volatile.

    Which records the cut itself loses is a matter of luck; what is durable at acks is none.
    """
    result = run(
        "machine: {bus: nvme}\ncut: {trigger: {acks: 40}}\ncontrols: none\n"
        "expect: lossy\nexplore: {budget: 6, policies: [durable-only], after: 0}\n"
    )
    trial = only(result)
    assert trial.exposure.records == 0, "the bytes of each record were durable"
    assert trial.verdict is Verdict.LOSSY
    assert trial.states.states == trial.states.by_policy["durable-only"] == 6
    # An ack on its way may arrive when a later flush has made its commit durable after all.
    assert trial.states.lossy >= 1
    (found,) = [f for f in trial.findings if f.origin is Origin.EXPLORATION]
    assert found.detail["confirmed"] == "yes", "by the recorded kernel"
    again = verify(Path(result.result_directory)).cells[0]
    assert again.verdict is Verdict.LOSSY
    assert again.trials[0].lost_lsns == trial.lost_lsns


@pytest.mark.parametrize("filesystem", ["xfs", pytest.param("ext4", marks=pytest.mark.nightly)])
def test_an_honest_disk_is_safe_by_64_states_that_go_on(run, filesystem):
    result = run(
        f"filesystem: {{type: {filesystem}}}\ndisk: {{atomic_unit: 4096}}\n"
        "cut: {trigger: {acks: 100}}\ncontrols: none\nexplore: {budget: auto}\n"
    )
    trial = only(result)
    assert trial.findings == ()
    states = trial.states
    assert (states.engine, states.states, states.went_on, states.lossy) == ("uml", 64, 64, 0)
    assert sum(states.by_policy.values()) == 64
    again = verify(Path(result.result_directory)).cells[0].trials[0]
    assert again.states == states
