# SPDX-License-Identifier: Apache-2.0
"""What only reads must not load what runs: most of the time of such a command is its imports."""

from __future__ import annotations

import subprocess
import sys

import pytest
from runs_by_hand import make_run

from powercut.model.verdict import Verdict

RUNS = {"explore", "trial.record", "verdict.judge", "witness", "certify", "cluster", "measure"}
"""Rooms, and modules of them, that record, recover or judge."""

READS_NO_STORE = RUNS | {"campaign", "crash", "disk", "machine", "recording", "recover", "rig"}

LOADED = """
import sys
from powercut.cli.main import main
sys.argv[0] = "powercut"
try:
    main()
finally:
    print("loaded", *(name for name in sys.modules if name.startswith("powercut.")))
"""


def loaded_by(tmp_path, *argv: str) -> set[str]:
    """The modules of powercut that are loaded when the command has ended, without its name."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *argv],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()[-1].split()
    assert told[0] == "loaded"
    return {name.removeprefix("powercut.") for name in told[1:]}


def of(loaded: set[str], unwanted: set[str]) -> set[str]:
    return {one for one in loaded for no in unwanted if one == no or one.startswith(f"{no}.")}


@pytest.mark.parametrize(
    ("argv", "unwanted"),
    [
        (("--help",), READS_NO_STORE | {"report", "scenario", "store", "workload"}),
        (("list", "presets"), READS_NO_STORE | {"workload"}),
        (("run", "--help"), READS_NO_STORE | {"report", "store", "workload"}),
        (("run", "--dry-run", "--brief"), RUNS | {"machine", "recording", "recover", "rig"}),
    ],
    ids=lambda one: "-".join(one) if isinstance(one, tuple) else "",
)
def test_a_command_that_only_reads_loads_nothing_that_runs(tmp_path, argv, unwanted):
    assert not of(loaded_by(tmp_path, *argv), unwanted)


def test_showing_a_run_that_is_safe_loads_no_recording(tmp_path):
    run = make_run(tmp_path)
    told = run.read_verdict()
    safe = [cell.model_copy(update={"verdict": Verdict.SAFE}) for cell in told.cells]
    run.write_verdict(told.model_copy(update={"cells": tuple(safe), "verdict": Verdict.SAFE}))
    unwanted = READS_NO_STORE | {"workload"}
    assert not of(loaded_by(tmp_path, "show", str(run.path)), unwanted)
    run.write_verdict(told)
    assert of(loaded_by(tmp_path, "show", str(run.path)), {"recording"})  # what was lost is told


def test_a_room_that_is_loaded_is_seen(tmp_path):
    assert of(loaded_by(tmp_path, "run", "--dry-run", "--brief"), {"campaign.selection"})
