# SPDX-License-Identifier: Apache-2.0
"""A result keeps the defaults that it was made with."""

from __future__ import annotations

from pathlib import Path

import pytest

from powercut.campaign.resume import Selection
from powercut.scenario.defaults import DEFAULTS, EARLIER_DEFAULTS
from powercut.scenario.load import expand, parse_scenario

TEXT = """powercut: 1
name: units
cells:
  - {name: plain}
  - {name: sector, disk.atomic_unit: 512}
  - {name: none, disk.atomic_unit: 1}
"""


def units(plan):
    return {cell.name: cell.parameters.disk.atomic_unit for cell in plan.cells}


def scenario(**more):
    return parse_scenario(TEXT, Path("units.yaml"), **more)


def test_a_disk_promises_what_todays_disks_do():
    assert dict(DEFAULTS) == {"disk.atomic_unit": 4096, "disk.model": "typical"}
    assert units(expand(scenario(), seed=1)) == {"plain": 4096, "sector": 512, "none": 1}


def test_an_earlier_scenario_keeps_its_meaning_where_it_leaves_one_out():
    earlier = expand(scenario(defaults=EARLIER_DEFAULTS), seed=1)
    assert units(earlier) == {"plain": 512, "sector": 512, "none": 1}


def test_what_the_base_of_a_scenario_says_counts_whatever_the_default_was():
    text = TEXT + "disk: {atomic_unit: 4096}\n"
    earlier = parse_scenario(text, Path("units.yaml"), defaults=EARLIER_DEFAULTS)
    assert units(expand(earlier, seed=1)) == {"plain": 4096, "sector": 512, "none": 1}


@pytest.mark.parametrize("selection", [Selection(), Selection(defaults=EARLIER_DEFAULTS)])
def test_a_run_says_which_defaults_it_took(selection):
    again = Selection.of_json(selection.as_json())
    assert again == selection
    assert units(again.plan(scenario(), 1)) == units(selection.plan(scenario(), 1))


def test_a_run_that_does_not_say_took_the_earlier_ones():
    value = Selection().as_json()
    del value["defaults"]
    assert units(Selection.of_json(value).plan(scenario(), 1))["plain"] == 512
