# SPDX-License-Identifier: Apache-2.0
"""Judges a result again from its recordings alone: no guest, no disk, any machine.

What was run is what the recordings say, under their seals; scenario.yaml beside them lies outside
of every seal.  So settings are taken from the recordings, and the scenario has to be the one that
they were made with: its cells, its text where the recording has the digest of it, and the seed
that theirs follow from.  Recordings that the verdict was made of and that are gone are missed: a
cell without evidence must not fall out of the result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from powercut import __version__
from powercut.campaign.assemble import (
    Known,
    Outcome,
    cell_results,
    distinct_controls,
    outcomes_of_cells,
)
from powercut.campaign.files import judge_files
from powercut.campaign.resume import SELECTION, SESSIONS
from powercut.campaign.selection import Selection
from powercut.explore.trial import RecoveredStates
from powercut.model.errors import DamagedRecording, UsageError
from powercut.model.events import RunEvent
from powercut.recording.sealed import SealedTrial, check_scenario
from powercut.rig.components import engine_fallback
from powercut.rig.engine_shelf import EngineShelf
from powercut.scenario.load import load_scenario
from powercut.scenario.plan import Plan, derive_seed
from powercut.scenario.settings import Parameters
from powercut.store.host_load import load_of_sessions
from powercut.store.layout import ResultDir, reproduce_command
from powercut.store.results import RunResult
from powercut.store.trial_dir import TrialDir, TrialRecord
from powercut.store.trial_result import TrialResult
from powercut.trial.controls import same_run
from powercut.verdict.judge import verdict_of


def verify(
    path: Path,
    *,
    cells: Collection[str] | None = None,
    whole: bool = True,
    on_event: Callable[[RunEvent], None] = lambda _: None,
) -> RunResult:
    """What the recordings below `path` say today.  Changes nothing on disk.

    With `cells` the result is about these; all others only serve as their controls.  Unless
    `whole`, it is a part of a run, and what is not there is not missed.

    Raises UsageError if there is no result at `path`, and DamagedRecording if evidence is
    missing or not what was sealed; the message names the file.
    """
    start = time.monotonic()
    directory = ResultDir.open(path)
    environment = directory.read_environment()
    if "seed" not in environment:
        raise DamagedRecording(f"{directory.path}/environment.json: it is missing or not whole")
    seed = int(environment["seed"])
    trials: dict[str, list[TrialResult]] = {}
    settings: dict[str, Parameters] = {}
    controls: Known = {}
    _check_kept(directory)
    plan = _planned(directory, environment, seed)
    for notice in engine_fallback(cell.parameters for cell in plan.cells):
        on_event(notice)
    with EngineShelf() as shelf:
        for trial in directory.trials():
            trial.check_seal()
            record = trial.read_record()
            if record.control is None:
                _check_belongs(directory, plan, trial, record, settings)
            result = verdict_of(SealedTrial(trial), RecoveredStates(shelf, again=True))
            if record.control is None:
                trials.setdefault(record.cell, []).append(result)
            else:
                controls[same_run(record.parameters)] = _outcome(record, result)
    if not trials:
        raise DamagedRecording(f"{directory.path}: there is no recording in it")
    if whole:
        _check_whole(directory, plan, trials)
    recorded = tuple(
        replace(cell, parameters=settings[cell.name]) for cell in plan.cells if cell.name in trials
    )
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
        files=judge_files(directory, plan, environment, again=True) if whole else None,
        reproduce=reproduce_command(directory.scenario_copy, seed, options=directory.options()),
        result_directory=str(directory.path),
        load=load_of_sessions(environment.get(SESSIONS, ())),
    )


def _planned(directory: ResultDir, environment: Mapping[str, Any], seed: int) -> Plan:
    path = directory.scenario_copy
    scenario = load_scenario(path)
    try:
        return Selection.of_json(environment[SELECTION]).plan(scenario, seed)
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedRecording(
            f"{directory.path}/environment.json: {SELECTION} makes no sense: {error!r}"
        ) from error


def _check_belongs(
    directory: ResultDir,
    plan: Plan,
    trial: TrialDir,
    record: TrialRecord,
    settings: dict[str, Parameters],
) -> None:
    """Raises DamagedRecording for a recording that another run, or scenario, has made.

    `settings` gets those of its cell, by which all of its trials were made.
    """
    check_scenario(trial, record, directory.scenario_copy)
    if record.cell not in {cell.name for cell in plan.cells}:
        raise DamagedRecording(
            f"{trial.path}: it is of cell {record.cell!r}, which {directory.scenario_copy} does "
            "not have",
            hint="put back the scenario that the run was made with",
        )
    place = directory.place_of(record.cell, record.trial.number)
    if place.path != trial.path:
        raise DamagedRecording(f"{trial.path}: it is the recording that belongs in {place.path}")
    if settings.setdefault(record.cell, record.parameters) != record.parameters:
        raise DamagedRecording(
            f"{trial.path}: it was made with other settings than the other trials of its cell"
        )
    if record.trial.seed != derive_seed(plan.seed, record.cell, record.trial.number):
        raise DamagedRecording(
            f"{trial.path}: its seed does not follow from {plan.seed}, which environment.json "
            "gives as that of the run"
        )


def _check_whole(directory: ResultDir, plan: Plan, trials: Mapping[str, object]) -> None:
    """Raises DamagedRecording if recordings are gone that the result rests on."""
    missing = [f"cell {cell.name!r}" for cell in plan.cells if cell.name not in trials]
    there = {trial.relative for trial in directory.trials()}
    if directory.ended:
        wanted = [
            (cell.cell, trial.trial, trial.result_directory)
            for cell in directory.read_verdict().cells
            for trial in cell.trials
        ]
    else:  # it was interrupted; or its verdict went, with a recording that it was made of
        wanted = [
            (cell.name, trial.number, directory.place_of(cell.name, trial.number).relative)
            for cell in plan.cells
            for trial in cell.trials
        ]
    missing += [
        f"cell {cell!r}, trial {number}"
        for cell, number, place in wanted
        if cell in trials and place not in there
    ]
    if missing:
        raise DamagedRecording(
            f"{directory.path}: recordings are missing: {'; '.join(missing)}",
            hint="put them back; or go on with the run if it was interrupted: `powercut run "
            "--resume`",
        )


def _check_kept(directory: ResultDir) -> None:
    """Raises UsageError if recordings were dropped on purpose: nothing can be judged then."""
    trials = directory.trials()
    dropped = [trial for trial in trials if trial.sealed and not trial.kept]
    if dropped:
        raise UsageError(
            f"{directory.path}: {len(dropped)} of {len(trials)} recordings were not kept",
            hint="the run was made with --keep; `powercut verify --deep` judges what "
            "was kept again",
        )


def _outcome(record: TrialRecord, result: TrialResult) -> Outcome:
    return Outcome.of(f"control {record.cell}", result)
