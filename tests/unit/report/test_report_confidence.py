# SPDX-License-Identifier: Apache-2.0
"""How sure a cell without loss makes us, and how often one with loss loses."""

from __future__ import annotations

from decimal import ROUND_FLOOR
from xml.etree import ElementTree as ET

import pytest

from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.report import words
from powercut.report.explained import explain
from powercut.report.junit import junit_xml
from powercut.report.publish import write_reports
from powercut.scenario.plan import Cell, draw_trials
from powercut.store.results import CellResult
from powercut.store.trial_result import TrialResult

LOST = Finding(FindingKind.LOST, Verdict.LOSSY, "gone", (LsnRange(1, 1),))
HUNG = Finding(FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, "hung")


def cell(make, *outcomes: tuple[Finding, ...], acked: int = 7, controls_hold: bool = True):
    """A cell whose trials have these findings."""
    like = make.plan.cells[0]
    trials = [
        TrialResult.judged(
            trial,
            verdict=max((finding.verdict for finding in found), default=Verdict.SAFE),
            acked=acked,
            attempted=acked + 1,
            findings=found,
        )
        for trial, found in zip(
            draw_trials(1, like.name, like.parameters, len(outcomes)), outcomes, strict=True
        )
    ]
    verdict = Verdict.worst(trial.verdict for trial in trials)
    if not controls_hold:
        verdict = max(verdict, Verdict.INCONCLUSIVE)
    made = Cell(like.name, like.parameters, ())
    return CellResult.of("first-light", made, trials, verdict=verdict)


def test_a_safe_cell_says_what_its_cuts_prove(make):
    one = cell(make, ())
    assert one.loss_probability_upper_95 == pytest.approx(0.95)
    many = cell(make, *[()] * 299)
    assert many.loss_probability_upper_95 is not None
    assert 0.0099 < many.loss_probability_upper_95 <= 0.01
    assert words.how_sure([many]) == [
        "honest: the recording is the evidence. By 299 cuts alone, fewer than 1 % of such cuts "
        "lose a record (95 % confidence)."
    ]


def test_cells_with_as_many_cuts_share_a_sentence(make):
    five = [cell(make, *[()] * 5) for _ in range(3)]
    lossy = cell(make, (LOST,))
    assert words.how_sure([*five, lossy]) == [
        "3 SAFE cells: the recording is the evidence. By 5 cuts each alone, fewer than 46 % of "
        "such cuts lose a record (95 % confidence)."
    ]


@pytest.mark.parametrize(
    ("outcomes", "options"),
    [
        ([(LOST,)], {}),
        ([(), (LOST,)], {}),
        ([(), (HUNG,)], {}),
        ([(), ()], {"controls_hold": False}),
        ([(), ()], {"acked": 0}),
    ],
)
def test_nothing_is_claimed_of_what_is_not_safe(make, outcomes, options):
    made = cell(make, *outcomes, **options)
    assert made.loss_probability_upper_95 is None
    assert words.how_sure([made]) == []


def test_a_lossy_cell_says_how_often(make):
    text = explain(cell(make, *[()] * 17, *[(LOST,)] * 3))
    assert text.startswith(
        "3 of 20 cuts convict it: 3.2 % to 38 % of such cuts would (at 95 % confidence). "
        "The worst is trial 18. Of "
    )
    assert explain(cell(make, (), (HUNG,), (LOST,))).startswith("1 of 3 cuts convict it. ")


@pytest.mark.parametrize(
    ("chance", "up", "down"),
    [
        (0.95, "95 %", "95 %"),
        (0.0453, "4.6 %", "4.5 %"),
        (3e-6, "0.0003 %", "0.0003 %"),
        (2.996e-6, "0.0003 %", "0.00029 %"),
        (0.9991, "100 %", "99 %"),
        (0.0, "0 %", "0 %"),
        (1.0, "100 %", "100 %"),
    ],
)
def test_bounds_are_rounded_to_the_side_on_which_they_hold(chance, up, down):
    assert words.percent(chance) == up
    assert words.percent(chance, rounding=ROUND_FLOOR) == down


def test_the_bound_is_in_the_page_and_in_junit(made):
    page = write_reports(made.directory).read_text()
    assert "honest: the recording is the evidence. By 1 cut alone, fewer" in page
    suite = ET.fromstring(junit_xml(made.run))
    bounds = [
        found.attrib["value"]
        for found in suite.iter("property")
        if found.attrib["name"] == "loss_probability_upper_95"
    ]
    assert bounds == ["0.95", "", ""]
