# SPDX-License-Identifier: Apache-2.0
"""Runs scenarios: all trials of all cells, then the controls that their verdicts need."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from powercut import __version__
from powercut.model.events import (
    Notice,
    Phase,
    RunEvent,
    RunFinished,
    RunStarted,
    TrialFinished,
    TrialPhase,
)
from powercut.model.machine import Accelerator
from powercut.model.verdict import Verdict
from powercut.run.assemble import (
    Known,
    Outcome,
    cell_results,
    distinct_controls,
    missing_controls,
    outcomes_of_cells,
    same_run,
)
from powercut.run.confidence import (
    Aim,
    aims_at,
    in_words,
    past_seconds,
    planned_for,
    seconds_of,
    total_seconds,
)
from powercut.run.controls import Control, controls_for
from powercut.run.explore_trial import explored
from powercut.run.judge import judge_trial
from powercut.run.record import TrialJob, record_trial
from powercut.run.rig import Rig
from powercut.run.run_id import run_id_of
from powercut.scenario.load import Scenario, expand, load_scenario
from powercut.scenario.plan import Cell, Plan, Trial, draw_trials
from powercut.scenario.seeds import fresh_seed
from powercut.scenario.settings import ControlKind, Expect, Parameters
from powercut.store.layout import ResultDir
from powercut.store.results import CampaignOutcome, RunResult, TrialResult

Listener = Callable[[RunEvent], None]


def run_scenarios(
    paths: Sequence[Path],
    *,
    seed: int | None,
    results: Path,
    only: Sequence[str] = (),
    trials: int | None = None,
    aim: Aim | None = None,
    jobs: int = 1,
    on_event: Listener = lambda _: None,
) -> CampaignOutcome:
    """Runs each scenario and returns what came out, which is on disk by then.

    All scenarios are read before the first runs.  `seed` replaces their own root seeds;
    where neither is given, one is drawn.  With an `aim`, cells that should be SAFE are cut as
    often as it takes, and no more after their first loss.  Raises UsageError for a mistake in
    a scenario and HostError if this host cannot run anything at all.
    """
    scenarios = [load_scenario(path) for path in paths]
    plans = []
    for scenario in scenarios:
        root = scenario.settings.seed if seed is None else seed
        root = fresh_seed() if root is None else root
        plan = expand(scenario, seed=root, trials=trials, only=only)
        plans.append(plan if aim is None else planned_for(plan, aim))
    rig = Rig.find()
    if rig.accelerator is not Accelerator.KVM:
        on_event(Notice("Guests run in emulation: `powercut doctor` says why KVM is not used."))
    for plan in plans:
        rig.prepare(plan)
    runs = []
    for scenario, plan in zip(scenarios, plans, strict=True):
        directory = ResultDir.create(results, plan.scenario, plan.seed)
        run = _Run(rig, scenario, plan, directory, jobs, on_event)
        if aim is not None:
            run.aim, run.options = aim, aim.options
        elif trials is not None:
            run.options = ["--trials", str(trials)]
        runs.append(run.run())
    return CampaignOutcome(runs=tuple(runs))


def _is_loss(result: TrialResult) -> bool:
    return result.verdict is Verdict.LOSSY


class _Run:
    """One run of one plan."""

    def __init__(
        self,
        rig: Rig,
        scenario: Scenario,
        plan: Plan,
        directory: ResultDir,
        jobs: int,
        on_event: Listener,
    ) -> None:
        self.rig = rig
        self.scenario = scenario
        self.plan = plan
        self.directory = directory
        self.jobs = jobs
        self.on_event = on_event
        self.aim: Aim | None = None
        self.options: list[str] = []

    def run(self) -> RunResult:
        """All trials, then the controls, then the verdicts; on disk when this returns."""
        started = datetime.now(UTC).isoformat(timespec="seconds")
        start = time.monotonic()
        self.directory.write_scenario(self.scenario.text)
        environment = {"seed": self.plan.seed, "started": started, **self.rig.environment()}
        if self.options:
            environment["options"] = shlex.join(self.options)
        self.directory.write_environment(environment)
        reproduce = self.directory.write_reproduce(self.plan.seed)
        self._announce()
        trials = self._run_cells()
        known = outcomes_of_cells(self.plan, trials)
        known |= self._run_controls(missing_controls(self.plan, trials, known))
        cells = cell_results(self.plan, trials, known, self.directory)
        result = RunResult.of(
            powercut=__version__,
            scenario=self.plan.scenario,
            description=self.plan.description,
            scenario_file=str(self.scenario.path),
            seed=self.plan.seed,
            started=started,
            seconds=round(time.monotonic() - start, 3),
            cells=cells,
            controls=distinct_controls(cells),
            reproduce=reproduce,
            result_directory=str(self.directory.path),
        )
        self.directory.write_verdict(result)
        self.on_event(RunFinished(self.plan.scenario, result.verdict, self.directory.path))
        return result

    def _announce(self) -> None:
        """Says how much there is to do if everything turns out as expected."""
        controls = {
            same_run(control.parameters)
            for cell in self.plan.cells
            for control in controls_for(
                cell.parameters, Verdict.SAFE if cell.expect is Expect.SAFE else Verdict.LOSSY
            )
        }
        own = {same_run(cell.parameters) for cell in self.plan.cells}
        self.on_event(
            RunStarted(
                scenario=self.plan.scenario,
                seed=self.plan.seed,
                cells=tuple(cell.name for cell in self.plan.cells),
                trials=self.plan.trials + len(controls - own),
                directory=self.directory.path,
            )
        )

    def _run_cells(self) -> dict[str, list[TrialResult]]:
        """Every trial of every cell, in the order of the plan."""
        work = [(cell, trial) for cell in self.plan.cells for trial in cell.trials]
        done = {} if self.aim is None else self._estimate(self.aim)
        lost: set[str] = {name for (name, _), result in done.items() if _is_loss(result)}

        def run(item: tuple[Cell, Trial]) -> None:
            cell, trial = item
            key = (cell.name, trial.number)
            if key in done or (self.aim is not None and aims_at(cell) and cell.name in lost):
                return
            done[key] = self._trial(cell.name, cell.parameters, trial)
            if _is_loss(done[key]):
                lost.add(cell.name)

        with ThreadPoolExecutor(self.jobs) as pool:
            for _ in pool.map(run, work):
                pass
        left_out = len(work) - len(done)
        if left_out:
            text = f"{left_out:,} cuts are left out: after a loss they could change nothing."
            self.on_event(Notice(text))
        return {
            cell.name: [
                done[cell.name, trial.number]
                for trial in cell.trials
                if (cell.name, trial.number) in done
            ]
            for cell in self.plan.cells
        }

    def _estimate(self, aim: Aim) -> dict[tuple[str, int], TrialResult]:
        """Says how many cuts there will be, and how long they take.

        Where no earlier run tells, one cut is made to see; it counts like any other.
        """
        self.on_event(Notice(f"{aim}."))
        known = past_seconds(self.directory.path.parent.parent, self.plan)
        done: dict[tuple[str, int], TrialResult] = {}
        source = "as in earlier runs"
        new = [c for c in self.plan.cells if aims_at(c) and same_run(c.parameters) not in known]
        if new:
            cell, trial = new[0], new[0].trials[0]
            result = self._trial(cell.name, cell.parameters, trial)
            done[cell.name, trial.number] = result
            known |= {same_run(c.parameters): seconds_of([result]) or 0.0 for c in new}
            source = "as the first one"
        seconds = total_seconds(self.plan, known, self.jobs)
        if seconds is not None:
            text = f"{self.plan.trials:,} cuts take {in_words(seconds)} here, if they go {source}."
            self.on_event(Notice(text))
        return done

    def _run_controls(self, wanted: dict[str, tuple[str, Control]]) -> Known:
        def run(item: tuple[str, Control]) -> Outcome:
            name, control = item
            (trial,) = draw_trials(self.plan.seed, name, control.parameters, 1)
            result = self._trial(name, control.parameters, trial, control.kind)
            return Outcome(f"control {name}", result.verdict, result.result_directory)

        with ThreadPoolExecutor(self.jobs) as pool:
            return dict(zip(wanted, pool.map(run, wanted.values()), strict=True))

    def _trial(
        self, name: str, parameters: Parameters, trial: Trial, control: ControlKind | None = None
    ) -> TrialResult:
        start = time.monotonic()

        def notify(phase: Phase) -> None:
            self.on_event(TrialPhase(name, trial.number, phase))

        directory = self.directory.trial(name, trial.number, control=control is not None)
        run_id = run_id_of(trial.seed)
        job = TrialJob(self.plan.scenario, name, parameters, trial, run_id, control=control)
        record_trial(self.rig, job, directory, notify)
        notify(Phase.JUDGE)
        result = explored(directory, judge_trial(directory))
        directory.write_verdict(result)
        self.on_event(
            TrialFinished(
                cell=name,
                trial=trial.number,
                verdict=result.verdict,
                acked=result.commits_acked,
                lost=result.commits_lost,
                seconds=round(time.monotonic() - start, 3),
                control=control is not None,
            )
        )
        return result
