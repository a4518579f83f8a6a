# SPDX-License-Identifier: Apache-2.0
"""Schemas, reference and scenarios that come with powercut keep in step with the code."""

from __future__ import annotations

import json
import re

import jsonschema
import pytest
import reference_page
from ruamel.yaml import YAML

from extras import extra
from powercut.paths import ROOT, SCENARIOS
from powercut.report import reference
from powercut.scenario.load import expand, load_scenario, parse_scenario
from powercut.scenario.schema import scenario_schema
from powercut.scenario.settings import Expect, setting_paths

DOCS = ROOT / "docs"
AGAIN = "run `.venv/bin/python tests/support/reference_page.py`"
# A profile of certify names scenarios that lie elsewhere by links.
FILES = sorted(path for path in SCENARIOS.rglob("*.yaml") if not path.is_symlink())


def errors(document: object) -> list[str]:
    validator = jsonschema.Draft202012Validator(scenario_schema())
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]


@pytest.mark.parametrize("name", sorted(reference.published()))
def test_every_schema_can_be_made(name):
    jsonschema.Draft202012Validator.check_schema(json.loads(reference.published()[name]))


def test_the_reference_is_up_to_date_and_names_every_setting():
    page = (DOCS / reference_page.REFERENCE).read_text(encoding="utf-8")
    assert reference_page.reference_with(page) == page, AGAIN
    for key in setting_paths():
        assert f"`{key}`" in page


def test_every_setting_is_described_in_the_schema():
    cell = scenario_schema()["properties"]["cells"]["items"]["properties"]
    for key in setting_paths():
        assert cell[key]["description"], key


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenarios_that_come_with_powercut_are_right(path):
    scenario = load_scenario(path)
    assert errors(YAML(typ="safe").load(path.read_text())) == []
    assert scenario.settings.description
    plan = expand(scenario, seed=1)
    assert len({cell.name for cell in plan.cells}) == len(plan.cells)
    # Two files of the same name would share their results and their name.
    name = f"name: {scenario.name}\n"
    assert [other for other in FILES if f"\n{name}" in other.read_text()] == [path]


def test_the_matrix_of_all_sync_modes_has_at_least_500_cuts():
    plan = expand(load_scenario(SCENARIOS / "matrix" / "all-sync-modes.yaml"), seed=1)
    assert len(plan.cells) == 3 * 5 * 2 * 4
    assert plan.trials >= 500
    assert {cell.expect for cell in plan.cells} == {Expect.SAFE}


def test_first_light_has_its_three_cells():
    plan = expand(load_scenario(SCENARIOS / "first-light.yaml"), seed=1)
    assert [(cell.name, cell.expect.value) for cell in plan.cells] == [
        ("honest", "safe"),
        ("lying", "lossy"),
        ("no-sync", "lossy"),
    ]
    contract = plan.cells[1].parameters.disk.contract()
    assert not contract.honest
    assert plan.cells[0].parameters.disk.contract().honest


def test_scenarios_in_the_documentation_are_right():
    extra("elsewhere")
    pages = [DOCS / "scenario-reference.md", *DOCS.glob("*.md"), ROOT / "README.md"]
    blocks = [
        block
        for page in pages
        if page.exists()
        for block in re.findall(r"```yaml\n(powercut: 1\n.*?)```", page.read_text(), re.DOTALL)
    ]
    assert len(blocks) >= 3
    for block in blocks:
        parse_scenario(block, DOCS / "scenario-reference.md")
        assert errors(YAML(typ="safe").load(block)) == []


@pytest.mark.parametrize(
    "document",
    [
        {"powercut": 1},
        {"powercut": 2, "name": "x"},
        {"powercut": 1, "name": "x", "workload": {"sync": "fdatsync"}},
        {"powercut": 1, "name": "x", "deadline": 60},
        {"powercut": 1, "name": "x", "cells": [{"disk.flush": "ignored"}]},
        {"powercut": 1, "name": "x", "cells": [{"name": "a", "disk.flsh": "ignored"}]},
        {"powercut": 1, "name": "x", "matrix": {"machine.cache": ["writebak"]}},
        {"powercut": 1, "name": "x", "controls": ["lying"]},
    ],
)
def test_the_schema_refuses_what_the_loader_refuses(document):
    assert errors(document)
