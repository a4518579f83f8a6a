# SPDX-License-Identifier: Apache-2.0
"""Goes on with a run that was interrupted: what it had recorded counts, the rest is made.

A recording counts if it is sealed: the seal is written when all of the evidence is durable
and before anything is judged (powercut.store.layout).  If its verdict was written, too, and names
that recording, it stands; otherwise the recording is judged now, if it is as it was sealed.
What was not sealed is made again, with the same seed.  So an interrupted run comes to the same
verdicts as one that was not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from powercut.campaign.selection import Selection
from powercut.explore.trial import RecoveredStates
from powercut.model.errors import DamagedRecording, UsageError
from powercut.recording.sealed import SealedTrial
from powercut.rig.engine_shelf import EngineShelf
from powercut.scenario.load import Scenario, load_scenario
from powercut.scenario.plan import Plan
from powercut.store.component import COMPONENTS, RunComponents, read_components, write_components
from powercut.store.layout import ResultDir
from powercut.store.trial_dir import TrialDir, TrialRecord
from powercut.store.trial_result import TrialResult
from powercut.trial.controls import same_run
from powercut.trial.job import TrialJob
from powercut.verdict.judge import verdict_of

SELECTION: Final = "selection"
"""Key of environment.json: what of the scenario was to be run."""

SESSIONS: Final = "sessions"
"""Key of environment.json: when the run was begun, and gone on with."""


@dataclass(frozen=True)
class InterruptedRun:
    """A run that has not come to its end, and how to go on with it."""

    directory: ResultDir
    scenario: Scenario
    plan: Plan
    selection: Selection
    environment: dict[str, Any]


def find_interrupted(path: Path) -> InterruptedRun:
    """The run at `path`.

    Raises UsageError if there is none, and DamagedRecording if what it was about is not known.
    """
    directory = ResultDir.open(path)
    environment = directory.read_environment()
    try:
        selection = Selection.of_json(environment[SELECTION])
        seed = int(environment["seed"])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DamagedRecording(
            f"{directory.path}/environment.json does not say what was to be run",
            hint="the run was interrupted before it began: run the scenario anew",
        ) from error
    scenario = load_scenario(directory.scenario_copy)
    plan = selection.plan(scenario, seed)
    return InterruptedRun(directory, scenario, plan, selection, environment)


def check_same_host(then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raises UsageError if a run would go on under other conditions than it began with."""
    for key in now:
        before, value = _condition(key, then.get(key)), _condition(key, now[key])
        if before != value:
            raise UsageError(
                f"{key} was {before!r} when the run began and is {value!r} now",
                hint="one run has one environment: start a new one",
            )


def _condition(key: str, value: Any) -> Any:
    """What must stay of a part of the environment: how an accelerator was proved may differ."""
    if not isinstance(value, Mapping):
        return value
    if key == "accelerator":
        return value["name"]
    return {name: _condition(name, part) for name, part in value.items()}


def check_same_components(run: ResultDir, now: RunComponents) -> None:
    """Writes components.json if the run was interrupted before it had one.

    Raises UsageError if a program or kernel is not the one that the run began with, and
    DamagedRecording if nothing says which those were.
    """
    if not (run.path / COMPONENTS).is_file() and not any(trial.sealed for trial in run.trials()):
        write_components(run, now)
        return
    then = read_components(run)
    for name, parts in now.cells.items():
        before = [then.components[index] for index in then.cells.get(name, ())]
        if len(before) != len(parts):
            raise DamagedRecording(
                f"{run.path / COMPONENTS}: it does not say what {name} ran on",
                hint="start a new run",
            )
        for old, new in zip(before, (now.components[index] for index in parts), strict=True):
            if old != new:
                raise UsageError(
                    f"{old.role} was {old.name} {old.version} when the run began and is "
                    f"{new.name} {new.version} now, or its file is another",
                    hint="one run has one environment: start a new one",
                )


def earlier_result(
    trial: TrialDir, job: TrialJob, shelf: EngineShelf | None = None
) -> TrialResult | None:
    """What an interrupted run had made of `job`; None if it is to be made, the folder gone.

    Raises DamagedRecording if the recording there is sealed and of another trial, or is not as
    it was sealed.
    """
    if not trial.sealed:
        trial.remove()
        return None
    trial.check_record()
    record = trial.read_record()
    same = same_run(record.parameters) == same_run(job.parameters)
    if job.control is None:
        same = same and record.trial == job.trial and record.parameters == job.parameters
    if not same or record.control != job.control:
        raise DamagedRecording(
            f"{trial.path}: the recording is of another trial than the scenario asks for",
            hint="its scenario.yaml was changed: start a new run",
        )
    known = result = _verdict_beside(trial, record)
    if result is None:
        trial.check_seal()
        result = verdict_of(SealedTrial(trial), RecoveredStates(shelf))
    if result.result_directory != trial.relative:  # of a control that another run had made
        result = result.model_copy(update={"result_directory": trial.relative})
    if result != known:
        trial.write_verdict(result)
    return result


def _verdict_beside(trial: TrialDir, record: TrialRecord) -> TrialResult | None:
    """The verdict on the recording in `trial`; None if there is none, or it is of another."""
    try:
        result = trial.read_verdict()
    except DamagedRecording:
        return None
    same = (result.trial, result.seed) == (record.trial.number, record.trial.seed)
    return result if same and result.binding == trial.read_binding().name else None


def sessions_then(environment: Mapping[str, Any], directory: ResultDir) -> list[dict[str, Any]]:
    """The sessions of a run until now, each with the seconds in which it got anything done."""
    sessions = [dict(session) for session in environment.get(SESSIONS, ())]
    if sessions and "seconds" not in sessions[-1]:
        began = datetime.fromisoformat(sessions[-1]["started"]).timestamp()
        files = directory.path.glob("c*/*/*/verdict.json")
        last = max((file.stat().st_mtime for file in files), default=began)
        sessions[-1]["seconds"] = round(max(last - began, 0.0), 3)
    return sessions


def new_session() -> dict[str, Any]:
    """A session that begins now."""
    return {"started": datetime.now(UTC).isoformat(timespec="seconds")}
