# SPDX-License-Identifier: Apache-2.0
"""Whole runs: a scenario in, a result out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from powercut.campaign.runner import run_scenarios
from powercut.store.results import CellResult, RunResult

Run = Callable[..., RunResult]


STATES = 8
"""Crash states that are recovered where a file system is to be SAFE; by default it is 64.

How many there are costs seconds and shows nothing new: tests/vm/explore is about them.
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs the text of a scenario, or a scenario file, with seed 1.

    Unless the text says otherwise few crash states are recovered, and none if its cut loses.
    """

    def run_it(scenario: str | Path, **options: Any) -> RunResult:
        if isinstance(scenario, str):
            path = tmp_path / "scenario.yaml"
            if "explore:" not in scenario:
                budget = "off" if "expect: lossy" in scenario else STATES
                scenario += f"\nexplore: {{budget: {budget}}}\n"
            path.write_text("powercut: 1\nname: test\n" + scenario)
        else:
            path = scenario
        options = {"seed": 1, "results": tmp_path / "results", **options}
        (result,) = run_scenarios([path], **options).runs
        return result

    return run_it


def cell(result: RunResult, name: str = "test") -> CellResult:
    (found,) = [c for c in result.cells if c.cell == name]
    return found
