# SPDX-License-Identifier: Apache-2.0
"""Cells of a scenario that is shipped, run once by a user's command, for tests to look at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from command_line import plain_word, powercut

from powercut.paths import ROOT

Cell = tuple[dict[str, Any], str]
"""Its result as JSON, and what `show` says of its first trial."""


def run_cells(scenario: Path, folder: Path, *names: str) -> dict[str, Cell]:
    """Runs the cells of these `names`, or all, with 32 states each and without controls."""
    workloads = ROOT / "workloads"
    text = scenario.read_text()
    text = text.replace("command: ../../workloads", f"command: {plain_word(workloads)}")
    text = text.replace("../../workloads", str(workloads))  # a word of a list
    text = text.replace("budget: 40", "budget: 32").replace("\ncells:", "\ncontrols: none\ncells:")
    path = folder / "scenario.yaml"
    path.write_text(text)
    only = [word for name in names for word in ("--only", name)]
    done = powercut("run", path, "--seed", "7", *only, "--json", "-", "--results", folder / "out")
    assert done.stdout, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    cells = Path(run["result_directory"], "cells")
    shown = {cell["cell"]: powercut("show", cells / cell["cell"] / "0001") for cell in run["cells"]}
    return {
        cell["cell"]: (cell, " ".join(shown[cell["cell"]].stdout.split())) for cell in run["cells"]
    }
