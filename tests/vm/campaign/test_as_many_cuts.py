# SPDX-License-Identifier: Apache-2.0
"""`--confidence` with real cuts."""

from __future__ import annotations

from pathlib import Path

import pytest

from powercut.campaign.confidence import Aim
from powercut.campaign.verify import verify
from powercut.model.events import Notice
from powercut.model.verdict import Verdict

RAW = """
filesystem: {type: raw}
workload: {direct: true, align: 4096, record: 4096, sync: fdatasync}
cut: {trigger: {acks: 60}}
"""

THREE = Aim(0.6, 0.3)

pytestmark = pytest.mark.vm


def test_a_safe_cell_is_cut_as_often_as_it_takes(run):
    events = []
    result = run(RAW, aim=THREE, on_event=events.append)
    (cell,) = result.cells
    assert cell.verdict is Verdict.SAFE
    assert [trial.trial for trial in cell.trials] == [1, 2, 3]
    assert cell.loss_probability_upper_95 == pytest.approx(1 - 0.05 ** (1 / 3))
    said = [event.text for event in events if isinstance(event, Notice)]
    assert f"{THREE}." in said
    assert any(text.startswith("3 cuts take about") and "first one" in text for text in said)
    again = verify(Path(result.result_directory))
    assert again.reproduce == result.reproduce
    assert again.cells[0].reproduce == cell.reproduce
    assert again.cells[0].loss_probability_upper_95 == cell.loss_probability_upper_95


def test_after_the_first_loss_no_cut_is_made(run):
    events = []
    lying = RAW + "disk: {flush: ignored}\ncontrols: none\n"
    result = run(lying, aim=THREE, on_event=events.append)
    (cell,) = result.cells
    assert cell.verdict is Verdict.LOSSY
    assert not cell.as_expected
    assert [trial.trial for trial in cell.trials] == [1]
    assert cell.loss_probability_upper_95 is None
    said = [event.text for event in events if isinstance(event, Notice)]
    assert "2 cuts are left out: after a loss they could change nothing." in said
    assert verify(Path(result.result_directory)).cells[0].verdict is Verdict.LOSSY


@pytest.mark.nightly
def test_a_cell_that_should_be_lossy_keeps_its_cuts(run):
    lying = RAW + "disk: {flush: ignored}\ncontrols: none\nexpect: lossy\ntrials: 2\n"
    (cell,) = run(lying, aim=THREE).cells
    assert [trial.trial for trial in cell.trials] == [1, 2]
    assert cell.as_expected
