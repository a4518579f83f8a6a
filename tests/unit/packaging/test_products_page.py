# SPDX-License-Identifier: Apache-2.0
"""docs/products.md says what scenarios/products and the figures have; adapters stay small."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from products_page import FIGURES, PAGE, cells, page

from powercut.paths import ROOT
from powercut.scenario.load import expand, load_scenario

ADAPTERS = sorted((ROOT / "workloads" / "products").glob("*.py"))
LINES_MAX = 60


def test_the_page_is_that_of_the_scenarios() -> None:
    assert PAGE.read_text() == page(), "write it anew: tests/support/products_page.py"


def test_each_cell_has_figures_with_a_verdict_that_it_expects() -> None:
    figures = json.loads(FIGURES.read_text())
    assert sorted(figures) == sorted(cell["name"] for cell in cells())
    for cell in cells():
        seen = figures[cell["name"]]
        assert seen["disk"].lower() == cell["expect"], cell["name"]
        assert seen["control"] == "LOSSY", cell["name"]
        assert (seen["lost"] > 0) == (seen["files"] == "LOSSY"), cell["name"]


@pytest.mark.parametrize("path", ADAPTERS, ids=lambda path: path.stem)
def test_an_adapter_is_small(path: Path) -> None:
    assert path.name == "adapter.py" or len(path.read_text().splitlines()) <= LINES_MAX


def test_the_scenarios_can_be_run_and_name_every_adapter() -> None:
    used = set()
    for path in sorted((ROOT / "scenarios" / "products").glob("*.yaml")):
        scenario = load_scenario(path)
        assert expand(scenario, seed=1)
        used |= {cell["workload.command"].split()[0].rpartition("/")[2] for cell in cells()}
    assert used | {"adapter.py"} == {path.name for path in ADAPTERS}
