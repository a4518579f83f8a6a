# SPDX-License-Identifier: Apache-2.0
"""Do the verdicts of a certificate's runs follow from their trials?

A run's verdict.json says what its trials add up to, and a certificate is drawn up from that.
Who doubts a certificate has to doubt it, too:

1. The run has the cells of the scenario in the certificate's folder, with its settings, and of
   each as many trials as were ordered, with the seeds that follow from the certificate's.
2. Each trial is listed with the verdict that lies beside its recording, and the recording is of
   that cell.  No trial that is worse than its cell is left out.
3. Each control is a run of the very combination that the cell's control is
   (powercut.trial.controls), and is listed with the verdict that lies beside it.
4. The verdict, the counts and the bound are what all that adds up to.

What lies beside a recording is judged again by `examine` with `deep`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from powercut.campaign.assemble import (
    as_control,
    vouched_for,
)
from powercut.campaign.selection import Selection
from powercut.model.errors import PowercutError
from powercut.model.named_path import openable
from powercut.model.verdict import Verdict
from powercut.recording.sealed import check_scenario
from powercut.scenario.load import parse_scenario
from powercut.scenario.plan import Cell, Plan
from powercut.store.layout import ResultDir
from powercut.store.results import CellResult, ControlResult
from powercut.store.trial_dir import TrialDir
from powercut.store.trial_result import TrialResult
from powercut.trial.controls import controls_for, same_run, twin
from powercut.verdict.controls import with_controls
from powercut_extras.certify.order import CertificateDir, Order

_ADDED_UP = (
    "parameters",
    "expected",
    "verdict",
    "evidence_level",
    "as_expected",
    "commits_acked",
    "commits_lost",
    "lost_lsns",
    "findings",
    "exposure",
    "states",
    "loss_probability_upper_95",
)


def problems_of_runs(directory: CertificateDir) -> Iterator[str]:
    """Where a run of the certificate in `directory` says something that does not follow."""
    order = directory.read_order()
    for name in order.scenarios:
        run = directory.run_of(name)
        if run is None or not run.ended:
            yield f"{name}: its run has not ended"
            continue
        try:
            plan = _plan(directory, order, name)
            yield from _problems_of_run(run, plan, directory.scenario(name))
        except PowercutError as error:
            yield str(error)


def _plan(directory: CertificateDir, order: Order, name: str) -> Plan:
    path = directory.scenario(name)
    try:
        text = openable(path).read_text(encoding="utf-8")
    except OSError:
        text = ""  # which is no scenario
    return Selection.of_json(order.selection).plan(parse_scenario(text, path), order.seed)


def _problems_of_run(run: ResultDir, plan: Plan, scenario: Path) -> Iterator[str]:
    told = run.read_verdict()
    where = f"{run.path}/verdict.json"
    if told.seed != plan.seed:
        yield f"{where}: its seed is {told.seed}, and {plan.seed} was ordered"
    cells = {cell.cell: cell for cell in told.cells}
    planned = [cell.name for cell in plan.cells]
    if [cell.cell for cell in told.cells] != planned:
        yield f"{where}: its cells are not those of the scenario"
    places = {trial.relative for trial in run.trials()}
    for cell in plan.cells:
        if cell.name in cells:
            for problem in _problems_of_cell(run, cell, cells[cell.name], places, scenario):
                yield f"{where}: {cell.name}: {problem}"


def _problems_of_cell(
    run: ResultDir,
    planned: Cell,
    told: CellResult,
    places: Collection[str],
    scenario: Path,
) -> Iterator[str]:
    own = _worst(told)
    yield from _problems_of_trials(run, planned, told, scenario)
    for control in told.controls:
        yield from _problems_of_control(run, planned, control, places)
    wanted = [c.name for c in controls_for(planned.parameters, vouched_for(told.trials))]
    listed = [control.name for control in told.controls]
    if listed != wanted:
        yield "its controls are not those that its trials ask for"
    verdict, _ = with_controls(own, told.controls)
    again = CellResult.of(
        told.scenario,
        planned,
        told.trials,
        verdict=verdict,
        controls=told.controls,
    )
    for key in _ADDED_UP:
        if getattr(told, key) != getattr(again, key):
            yield f"{key}: it is not what its trials and controls add up to"


def _worst(told: CellResult) -> Verdict:
    return Verdict.worst(trial.verdict for trial in told.trials)


def _problems_of_trials(
    run: ResultDir, planned: Cell, told: CellResult, scenario: Path
) -> Iterator[str]:
    by_number = {trial.number: trial for trial in planned.trials}
    numbers = [trial.trial for trial in told.trials]
    listed = set(numbers)
    if len(listed) != len(numbers) or not listed <= by_number.keys():
        yield "its trials are not those that were ordered"
        return
    # After a loss further cuts may be left out: they could change nothing.
    if len(listed) < len(by_number) and _worst(told) is not Verdict.LOSSY:
        yield f"{len(listed)} trials, and {len(by_number)} were ordered"
    for trial in told.trials:
        place = run.place_of(planned.name, trial.trial)
        record = place.read_record()
        if (record.cell, record.control) != (planned.name, None):
            yield f"trial {trial.trial}: the recording is of {record.cell}"
        elif (record.parameters, record.trial) != (planned.parameters, by_number[trial.trial]):
            yield f"trial {trial.trial}: the recording is of other settings, or of another seed"
        for copy in (scenario, run.scenario_copy):
            check_scenario(place, record, copy)
        yield from _problems_beside(place, trial)
    for number in sorted(by_number.keys() - listed):
        place = run.place_of(planned.name, number)
        if place.sealed and place.read_verdict().verdict > told.verdict:
            yield f"trial {number} is left out, and is worse than the verdict"


def _problems_beside(place: TrialDir, trial: TrialResult) -> Iterator[str]:
    """What is said of `trial`, and what lies beside its recording."""
    if trial.result_directory != place.relative:
        yield f"trial {trial.trial}: its recording is {place.relative}"
    if place.read_verdict() != trial:
        yield f"trial {trial.trial}: beside the recording stands another verdict"
    if not place.kept:  # else all of it is looked at
        place.check_record()


def _problems_of_control(
    run: ResultDir, planned: Cell, told: ControlResult, places: Collection[str]
) -> Iterator[str]:
    name = f"control {told.name}"
    if not told.result_directory:
        if told.behaved:
            yield f"{name} has no recording"
        return
    if told.result_directory not in places:
        yield f"{name}: {told.result_directory} is no recording of this run"
        return
    place = run.at(told.result_directory)
    meant = twin(planned.parameters, told.kind, told.disk)
    if same_run(place.read_record().parameters) != same_run(meant):
        yield f"{name}: the recording is of another combination"
    if as_control(place.read_verdict()) is not told.verdict:
        yield f"{name}: beside the recording stands another verdict"
    if not place.kept:
        place.check_record()
