# SPDX-License-Identifier: Apache-2.0
"""The first screen of a certificate: what may be used, what not, and what to change."""

from __future__ import annotations

import pytest
from certificate_maker import cell_of, cells_of_yaml, certificate_of_cells, cost_of

from powercut.model.verdict import Verdict
from powercut_extras.certify.known_causes import _OF_A_LOSS, USB, causes_of
from powercut_extras.certify.page import certificate_html
from powercut_extras.certify.page_answer import SHOWN_MAX, answer_of, settings_text
from powercut_extras.certify.page_costs import cost_views
from powercut_extras.certify.page_losses import kinds_of

CELLS = """powercut: 1
name: some
cells:
  - {name: virtualbox-ide, machine.cache: unsafe, expect: lossy}
  - {name: plain-unsafe, machine.cache: unsafe, expect: lossy}
  - {name: without-sync, workload.sync: none, expect: lossy}
  - {name: honest, cut.trigger: {acks: 40}}
"""


def lossy(cells):
    """Those that were expected to lose, lost; each names the first cause of its settings."""
    for cell in cells:
        if cell.expected.value == "safe":
            yield cell
            continue
        cause = causes_of(cell.parameters)[0]
        change = {"verdict": Verdict.LOSSY, "as_expected": True, "lost": 7, "cause": str(cause)}
        yield cell.model_copy(update={**change, "cause_layer": cause.layer})


def answer(cells, tmp_path):
    certificate = certificate_of_cells(cells)
    views = cost_views(certificate, {})
    costs = {number: view[0] for number, view in views.items()}
    return answer_of(certificate, kinds_of(certificate, tmp_path), costs)


def test_unsafe_settings_come_by_cause_with_the_command_that_mends_them(tmp_path):
    cells = list(lossy(cells_of_yaml(CELLS)))
    found = answer(cells, tmp_path)
    assert found.tone is Verdict.LOSSY
    assert found.status == "3 of 4 settings lose acknowledged writes: do not use them"
    assert found.beside == "1 safe as tested, 0 undecided; the scenarios expected every verdict"
    rows = {row.members: row.remedy for row in found.unsafe}
    assert set(rows) == {(0,), (1,), (2,)}
    assert rows[0,].startswith("VBoxManage setextradata VM ")  # the product's own
    assert "cache='none'" in rows[1,]
    assert "fdatasync(2)" in rows[2,]
    assert found.safe == (3,)
    assert settings_text(cells[3]) == "all defaults", "how it was cut is no setting of the product"


@pytest.mark.parametrize("expected", [True, False])
def test_a_loss_is_never_a_green_line(tmp_path, expected):
    cells = [cell_of("a", Verdict.SAFE), cell_of("b", Verdict.LOSSY, expected_lossy=expected)]
    assert answer(cells, tmp_path).tone is Verdict.LOSSY
    page = certificate_html(certificate_of_cells(cells), tmp_path)
    assert '<div class="answer LOSSY">' in page
    assert "1 of 2 settings loses acknowledged writes" in page
    assert page.index('id="unsafe"') < page.index('id="safe"') < page.index('id="sure"')


def test_what_is_not_known_is_not_among_the_safe(tmp_path):
    cells = [cell_of("a", Verdict.SAFE), cell_of("b", Verdict.INCONCLUSIVE)]
    found = answer(cells, tmp_path)
    assert (found.tone, found.safe, found.unknown) == (Verdict.INCONCLUSIVE, (0,), (1,))
    assert found.status == "1 of 2 settings could not be decided"
    page = certificate_html(certificate_of_cells(cells), tmp_path)
    assert "Do not take these for safe" in page


def test_all_safe_is_said_as_no_loss_found(tmp_path):
    found = answer([cell_of("a", Verdict.SAFE)], tmp_path)
    assert (found.tone, found.status) == (Verdict.SAFE, "No loss found in 1 setting")


def test_many_settings_of_one_cause_are_counted(tmp_path):
    cells = [cell_of(f"c{n}", Verdict.LOSSY, cause="x", explanation="x") for n in range(9)]
    page = certificate_html(certificate_of_cells(cells), tmp_path)
    assert f"and {9 - SHOWN_MAX} more" in page


def test_every_known_cause_says_what_to_change():
    assert all(cause.remedy for cause in (*_OF_A_LOSS, USB))


def test_costs_are_compared_with_like_alone():
    """ext4 costs what a file system costs: nothing is said of it beside a raw disk."""
    text = "powercut: 1\nname: some\nmatrix: {filesystem.type: [raw, ext4]}\n"
    cells = [
        cell.model_copy(update={"costs": (cost_of(1.0, commits),)})
        for cell, commits in zip(cells_of_yaml(text), (538, 99), strict=True)
    ]
    views = cost_views(certificate_of_cells(cells), {0: "same row", 1: "same row"})
    assert [view.ratio for (view,) in views.values()] == [1.0, 1.0]
