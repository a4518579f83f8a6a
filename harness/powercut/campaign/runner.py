# SPDX-License-Identifier: Apache-2.0
"""Starts runs of scenarios, new ones and those that were interrupted."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from powercut.campaign.confidence import Aim
from powercut.campaign.files import RecordedFiles
from powercut.campaign.resume import (
    SELECTION,
    SESSIONS,
    InterruptedRun,
    check_same_components,
    check_same_host,
    find_interrupted,
    new_session,
    sessions_then,
)
from powercut.campaign.run import Keep, Listener, Run, RunOptions
from powercut.campaign.selection import Selection
from powercut.model.errors import UsageError
from powercut.model.events import Notice
from powercut.rig.components import components_of, engine_fallback
from powercut.rig.rig import Rig, accelerators_of, backends_of
from powercut.scenario.load import Scenario, load_scenario
from powercut.scenario.plan import Plan, fresh_seed
from powercut.scenario.settings import AcceleratorChoice
from powercut.store.component import write_components
from powercut.store.files import locked
from powercut.store.layout import ResultDir
from powercut.store.results import CampaignOutcome, RunResult


def run_scenarios(
    scenarios: Sequence[Path | Scenario],
    *,
    seed: int | None,
    results: Path,
    only: Sequence[str] = (),
    trials: int | None = None,
    aim: Aim | None = None,
    jobs: int = 1,
    keep: Keep = Keep.ALL,
    on_event: Listener = lambda _: None,
    run_of: Callable[..., Run] | None = None,
    files: RecordedFiles | None = None,
) -> CampaignOutcome:
    """Runs each scenario and returns what came out, which is on disk by then.

    All scenarios are read before the first runs.  `seed` replaces their own root seeds;
    where neither is given, one is drawn.  With an `aim`, cells that should be SAFE are cut as
    often as it takes, and no more after their first loss.  `run_of` makes the runs, if not `Run`.
    `files` join each of them.  Raises UsageError for a mistake in a scenario and HostError if this
    host cannot run anything at all.
    """
    selection = Selection(tuple(only), trials, aim)
    planned = [
        (scenario, selection.plan(scenario, root_seed(scenario, seed)))
        for scenario in [_loaded(item) for item in scenarios]
    ]
    rig = ready_rig([plan for _, plan in planned], on_event)
    options = RunOptions(jobs, keep, on_event, run_of=run_of, files=files)
    runs = [new_run(rig, scenario, plan, selection, results, options) for scenario, plan in planned]
    return CampaignOutcome(runs=tuple(runs))


def _loaded(scenario: Path | Scenario) -> Scenario:
    return scenario if isinstance(scenario, Scenario) else load_scenario(scenario)


def root_seed(scenario: Scenario, seed: int | None) -> int:
    """`seed`; else the scenario's own; else one that is drawn."""
    if seed is not None:
        return seed
    return fresh_seed() if scenario.settings.seed is None else scenario.settings.seed


def ready_rig(plans: Sequence[Plan], on_event: Listener) -> Rig:
    """The rig of this host with all that `plans` need.  Raises HostError."""
    rig = Rig()
    for name in dict.fromkeys(name for plan in plans for name in backends_of(plan)):
        backend = rig.backend(name)
        asked = {choice for plan in plans for choice in accelerators_of(plan, name)}
        backend.environment(asked)  # whatever is missing shows before anything is made
        if AcceleratorChoice.AUTO in asked and backend.emulates(AcceleratorChoice.AUTO):
            on_event(Notice("Guests run in emulation: `powercut doctor` says why KVM is not used."))
    for plan in plans:
        rig.prepare(plan)
    for notice in engine_fallback(cell.parameters for plan in plans for cell in plan.cells):
        on_event(notice)
    return rig


def new_run(
    rig: Rig,
    scenario: Scenario,
    plan: Plan,
    selection: Selection,
    results: Path,
    options: RunOptions,
) -> RunResult:
    """Runs `plan` in a new folder below `results`."""
    directory = ResultDir.create(results, plan.scenario, plan.seed)
    with locked(directory.path, "run"):
        directory.write_scenario(scenario.text)
        sessions = [new_session()]
        environment = {
            "seed": plan.seed,
            "started": sessions[0]["started"],
            SESSIONS: sessions,
            SELECTION: selection.as_json(),
            **rig.environment(plan),
        }
        if options.files is not None:
            environment |= options.files.join(directory)
        if selection.options:
            environment["options"] = shlex.join(selection.options)
        directory.write_environment(environment)
        write_components(directory, components_of(rig, plan.cells))
        make = options.run_of or Run
        return make(rig, scenario, plan, directory, options, selection.aim, environment).run()


def resume_run(path: Path, options: RunOptions, rig: Rig | None = None) -> RunResult:
    """Goes on with the interrupted run at `path`; what it had sealed is not made again.

    Raises UsageError if there is no such run, if it has ended, or if this host is not as it
    was; HostError if another process is at work on it; and DamagedRecording if what is there does
    not fit its scenario.
    """
    with locked(ResultDir.open(path).path, "run"):
        return _resume(find_interrupted(path), options, rig)


def _resume(interrupted: InterruptedRun, options: RunOptions, rig: Rig | None) -> RunResult:
    directory, plan = interrupted.directory, interrupted.plan
    if directory.ended:
        raise UsageError(
            f"{directory.path}: this run has come to its end",
            hint="`powercut verify` judges it again, reproduce.sh repeats it",
        )
    rig = rig or ready_rig([plan], options.on_event)
    environment = interrupted.environment
    check_same_host(environment, rig.environment(plan))
    check_same_components(directory, components_of(rig, plan.cells))
    sessions = [*sessions_then(environment, directory), new_session()]
    environment = {**environment, SESSIONS: sessions}
    directory.write_environment(environment)
    aim = interrupted.selection.aim
    make = options.run_of or Run
    return make(rig, interrupted.scenario, plan, directory, options, aim, environment).run()
