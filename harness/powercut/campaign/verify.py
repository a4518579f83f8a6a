# SPDX-License-Identifier: Apache-2.0
"""Judges a result again from its recordings alone: no guest, no disk, any machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from pathlib import Path

from powercut import __version__
from powercut.campaign.assemble import (
    Known,
    Outcome,
    cell_results,
    distinct_controls,
    outcomes_of_cells,
    same_run,
)
from powercut.explore.trial import explored
from powercut.model.errors import DamagedRecording, UsageError
from powercut.model.events import RunEvent
from powercut.rig.components import engine_fallback
from powercut.scenario.load import expand, parse_scenario
from powercut.scenario.plan import Plan
from powercut.store.layout import ResultDir, TrialRecord, reproduce_command
from powercut.store.results import RunResult, TrialResult
from powercut.trial.judge import judge_trial


def verify(
    path: Path,
    *,
    cells: Collection[str] | None = None,
    on_event: Callable[[RunEvent], None] = lambda _: None,
) -> RunResult:
    """What the recordings below `path` say today.  Changes nothing on disk.

    With `cells` the result is about these; all others only serve as their controls.

    Raises UsageError if there is no result at `path`, and DamagedRecording if evidence is
    missing or not what was sealed; the message names the file.
    """
    start = time.monotonic()
    directory = ResultDir.open(path)
    environment = directory.read_environment()
    if "seed" not in environment:
        raise DamagedRecording(f"{directory.path}/environment.json: it is missing or not whole")
    seed = int(environment["seed"])
    scenario = parse_scenario(directory.scenario_copy.read_text(), directory.scenario_copy)
    trials: dict[str, list[TrialResult]] = {}
    controls: Known = {}
    _check_kept(directory)
    for notice in engine_fallback(cell.parameters for cell in expand(scenario, seed=seed).cells):
        on_event(notice)
    for trial in directory.trials():
        trial.check_seal()
        record = trial.read_record()
        result = explored(trial, judge_trial(trial), again=True)
        if record.control is None:
            trials.setdefault(record.cell, []).append(result)
        else:
            controls[same_run(record.parameters)] = _outcome(record, result)
    if not trials:
        raise DamagedRecording(f"{directory.path}: there is no recording in it")
    plan = expand(scenario, seed=seed)
    recorded = tuple(cell for cell in plan.cells if cell.name in trials)
    plan = Plan(plan.scenario, plan.description, seed, recorded)
    known = controls | outcomes_of_cells(plan, trials)
    told = tuple(cell for cell in recorded if cells is None or cell.name in cells)
    plan = Plan(plan.scenario, plan.description, seed, told)
    results = cell_results(plan, trials, known, directory)
    return RunResult.of(
        powercut=__version__,
        scenario=plan.scenario,
        description=plan.description,
        scenario_file=str(directory.scenario_copy),
        seed=seed,
        started=str(environment.get("started", "")),
        seconds=round(time.monotonic() - start, 3),
        cells=results,
        controls=distinct_controls(results),
        reproduce=reproduce_command(directory.scenario_copy, seed, options=directory.options()),
        result_directory=str(directory.path),
    )


def _check_kept(directory: ResultDir) -> None:
    """Raises UsageError if recordings were dropped on purpose: nothing can be judged then."""
    trials = directory.trials()
    dropped = [trial for trial in trials if trial.sealed and not trial.kept]
    if dropped:
        raise UsageError(
            f"{directory.path}: {len(dropped)} of {len(trials)} recordings were not kept",
            hint="the run was made with --keep; `powercut certificate verify --deep` judges what "
            "was kept again",
        )


def _outcome(record: TrialRecord, result: TrialResult) -> Outcome:
    return Outcome.of(f"control {record.cell}", result)
