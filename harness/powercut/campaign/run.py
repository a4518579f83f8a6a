# SPDX-License-Identifier: Apache-2.0
"""One run of one scenario: all trials of all cells, then the controls that their verdicts need."""

from __future__ import annotations

import enum
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock, Timer
from typing import Any, Final

from powercut import __version__
from powercut.campaign.assemble import (
    Known,
    Outcome,
    as_control,
    cell_results,
    distinct_controls,
    missing_controls,
    outcomes_of_cells,
)
from powercut.campaign.confidence import (
    Aim,
    aims_at,
    in_words,
    past_seconds,
    seconds_of,
    total_seconds,
)
from powercut.campaign.files import RecordedFiles, judge_files
from powercut.campaign.resume import SESSIONS, earlier_result
from powercut.campaign.selection import trials_of
from powercut.explore.request import ExploreProgress
from powercut.explore.trial import RecoveredStates, wanted_by
from powercut.model.events import (
    Notice,
    Phase,
    RunEvent,
    RunFinished,
    RunStarted,
    TrialFinished,
    TrialPhase,
)
from powercut.model.verdict import Verdict
from powercut.recording.sealed import SealedTrial
from powercut.rig.commands import run_id_of
from powercut.rig.engine_shelf import EngineShelf
from powercut.rig.load_meter import LoadMeter
from powercut.rig.rig import Rig
from powercut.scenario.load import Scenario
from powercut.scenario.plan import Cell, Plan, Trial, draw_trials
from powercut.scenario.settings import Parameters
from powercut.store.host_load import LOAD, load_of_sessions
from powercut.store.layout import ResultDir
from powercut.store.progress import Busy, RunProgress, remove_progress, write_progress
from powercut.store.results import RunResult, wanted_verdict
from powercut.store.trial_dir import TrialDir, text_digest
from powercut.store.trial_result import TrialResult
from powercut.trial.controls import Control, begins_alike, same_run
from powercut.trial.job import TrialJob
from powercut.trial.record import record_trial
from powercut.verdict.judge import verdict_of

# Which recordings are kept once they have been judged, and how.
#
# A matrix of a thousand cells makes three thousand recordings, and nearly all of them say that all
# was well.  Packed (powercut.store.packed) they take some ten kilobytes each, so that what a SAFE
# rests on can be kept.  What is dropped leaves its manifest, trial.json and verdict.json, so that
# the digest of the evidence stands in a certificate all the same; it cannot be judged again.


class Keep(enum.Enum):
    """Which recordings stay."""

    ALL = "all"  # as they were recorded, and what was measured besides
    EVIDENCE = "evidence"  # everything that a verdict rests on, packed
    NOTABLE = "notable"  # of that, all but cuts that lost nothing and controls that behaved
    NONE = "none"


def keep_or_drop(
    trial: TrialDir, verdict: Verdict, wanted: Verdict, keep: Keep, *, control: bool
) -> None:
    """Packs the evidence of a judged trial, or drops it, as `keep` says.

    Raises HostError and DamagedRecording.
    """
    boring = verdict is wanted and (control or verdict in (Verdict.SAFE, Verdict.SURVIVED))
    if keep is Keep.NONE or (keep is Keep.NOTABLE and boring):
        trial.drop_evidence()
    elif keep is not Keep.ALL:
        trial.pack()


Listener = Callable[[RunEvent], None]


@dataclass(frozen=True)
class RunOptions:
    """How runs are made, as far as it does not change what comes out."""

    jobs: int = 1
    """Trials at the same time."""

    keep: Keep = Keep.ALL
    """Which recordings stay."""

    on_event: Listener = lambda _: None
    """Is told what happens, from several threads."""

    controls: dict[str, TrialDir] = field(default_factory=dict)
    """Controls that runs have made, by `same_run`: each is made once, for all runs."""

    run_of: Callable[..., Run] | None = None
    """Makes the run, as `Run` itself does by default."""

    files: RecordedFiles | None = None
    """Captured files that are judged with the run."""


_PACE_KNOWN: Final = 8
"""After so many states it is said how long the others take."""

_FILES: Final = "files, each promise"
_LONG_S: Final = 15.0
"""What takes longer is announced."""


def _is_loss(result: TrialResult) -> bool:
    return result.verdict is Verdict.LOSSY


class Run:
    """One run of one plan, from its start or from where it was interrupted."""

    def __init__(
        self,
        rig: Rig,
        scenario: Scenario,
        plan: Plan,
        directory: ResultDir,
        options: RunOptions,
        aim: Aim | None,
        environment: Mapping[str, Any],
    ) -> None:
        self.rig = rig
        self.scenario = scenario
        self.plan = plan
        self.directory = directory
        self.options = options
        self.jobs = options.jobs
        self.progress = ProgressFile(directory.path, plan)
        self.aim = aim
        self.environment = environment
        self.shelf = EngineShelf()
        self.interrupted = threading.Event()

    def on_event(self, event: RunEvent) -> None:
        """Tells it to whoever listens, and those who watch the folder."""
        self.progress(event)
        self.options.on_event(event)

    def run(self) -> RunResult:
        """All trials, then the controls, then the verdicts; on disk when this returns."""
        start, meter = time.monotonic(), LoadMeter()
        sessions = self.environment[SESSIONS]
        before_s = sum(session.get("seconds", 0.0) for session in sessions)
        reproduce = self.directory.write_reproduce(self.plan.seed)
        self._announce()
        with self.shelf, self._workers(1) as beside:
            files = beside.submit(
                judge_files,
                self.directory,
                self.plan,
                self.environment,
                heard=self._looking(_FILES),
            )
            trials = self._run_cells()
            known = outcomes_of_cells(self.plan, trials)
            known |= self._run_controls(missing_controls(self.plan, trials, known))
        if load := meter.read():
            sessions[-1][LOAD] = load.model_dump()
            self.directory.write_environment(self.environment)
        cells = cell_results(self.plan, trials, known, self.directory)
        result = RunResult.of(
            powercut=__version__,
            scenario=self.plan.scenario,
            description=self.plan.description,
            scenario_file=str(self.scenario.path),
            seed=self.plan.seed,
            started=str(self.environment["started"]),
            seconds=round(before_s + time.monotonic() - start, 3),
            cells=cells,
            controls=distinct_controls(cells),
            files=files.result(),
            reproduce=reproduce,
            result_directory=str(self.directory.path),
            load=load_of_sessions(sessions),
        )
        self.directory.write_verdict(result)
        self.progress.remove()
        self.options.on_event(RunFinished(self.plan.scenario, result.verdict, self.directory.path))
        return result

    def _go_on(self) -> None:
        """Raises CancelledError once the run is interrupted."""
        if self.interrupted.is_set():
            raise CancelledError

    @contextmanager
    def _workers(self, jobs: int) -> Iterator[ThreadPoolExecutor]:
        """Threads for trials.  An interrupt does not wait for those that are under way."""
        pool = ThreadPoolExecutor(jobs)
        try:
            yield pool
        except KeyboardInterrupt:
            self.interrupted.set()
            raise
        finally:
            interrupted = self.interrupted.is_set()
            pool.shutdown(wait=not interrupted, cancel_futures=interrupted)

    def _announce(self) -> None:
        """Says how much there is to do if everything turns out as expected."""
        self.on_event(
            RunStarted(
                scenario=self.plan.scenario,
                seed=self.plan.seed,
                cells=tuple(cell.name for cell in self.plan.cells),
                trials=trials_of(self.plan),
                directory=self.directory.path,
            )
        )

    def _run_cells(self) -> dict[str, list[TrialResult]]:
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

        with self._workers(self.jobs) as pool:
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
        def run(item: tuple[str, tuple[str, Control]]) -> Outcome:
            key, (name, control) = item
            (trial,) = draw_trials(self.plan.seed, name, control.parameters, 1)
            first = self._first_alike(control)
            if first is not None:
                trial = replace(trial, seed=first[1].seed)
            place = self.directory.place_of(name, 1, control=True)
            made = self.options.controls.get(key)
            if made is not None and not place.path.exists():
                place.adopt_recording(made)
            result = self._trial(name, control.parameters, trial, control)
            self.options.controls.setdefault(key, place)
            return Outcome.of(f"control {name}", result)

        with self._workers(self.jobs) as pool:
            return dict(zip(wanted, pool.map(run, wanted.items()), strict=True))

    def _first_alike(self, control: Control) -> tuple[Cell, Trial] | None:
        """The trial with whose disk at power-on, and seed, a control begins.  One that must be SAFE
        has its own: a kernel that was lent with the disk booted before its run, and a check may
        take a file that is younger than the boot for one that no cut has hit."""
        if control.expected is Verdict.SAFE:
            return None
        parameters = control.parameters
        alike = (cell for cell in self.plan.cells if begins_alike(cell.parameters, parameters))
        return next(((cell, cell.trials[0]) for cell in alike), None)

    def _trial(
        self, name: str, parameters: Parameters, trial: Trial, control: Control | None = None
    ) -> TrialResult:
        """Makes and judges one trial, unless it is there already."""
        start = time.monotonic()

        def notify(phase: Phase) -> None:
            self.on_event(TrialPhase(name, trial.number, phase))

        kind = None if control is None else control.kind
        directory = self.directory.place_of(name, trial.number, control=control is not None)
        run_id = run_id_of(trial.seed)
        digest = text_digest(self.scenario.text.encode())
        first = None if control is None else self._first_alike(control)
        begins = None if first is None else self.directory.place_of(first[0].name, first[1].number)
        job = TrialJob(self.plan.scenario, name, parameters, trial, run_id, kind, digest, begins)
        result = earlier_result(directory, job, self.shelf)
        earlier = result is not None
        if result is None:
            directory = self.directory.trial(name, trial.number, control=control is not None)
            result = self._make(job, directory, notify)
        wanted = wanted_verdict(parameters.expect) if control is None else control.expected
        worth = result.verdict if control is None else as_control(result)
        keep_or_drop(directory, worth, wanted, self.options.keep, control=control is not None)
        self.on_event(
            TrialFinished(
                cell=name,
                trial=trial.number,
                verdict=result.verdict,
                acked=result.commits_acked,
                lost=result.commits_lost,
                seconds=round(time.monotonic() - start, 3),
                control=control is not None,
                as_expected=worth is wanted,
                earlier=earlier,
            )
        )
        return result

    def _make(
        self, job: TrialJob, directory: TrialDir, notify: Callable[[Phase], None]
    ) -> TrialResult:
        """Records the trial, judges it, and writes the verdict beside it."""
        record_trial(self.rig, job, directory, notify, self.shelf)
        looking = self._looking(job.cell, job.trial.number)
        result = verdict_of(
            SealedTrial(directory), RecoveredStates(self.shelf, on_event=looking), notify
        )
        self._go_on()  # its engine may have been taken away: judged when resumed
        directory.write_verdict(result)
        return result

    def _looking(self, cell: str, trial: int = 0) -> Callable[[ExploreProgress | None], None]:
        """Hears how far the states of a trial are, 0 for captured files, and what a program waits
        for: says so as soon as the pace is known."""
        watch = self.progress.states(cell, trial) if trial else lambda _: None
        told = self.options.files is None

        def hear(event: ExploreProgress | None) -> None:
            nonlocal told
            self._go_on()
            if event is None:
                return
            watch(event)
            if event.states < _PACE_KNOWN or event.left_s == math.inf:
                return
            left = in_words(event.left_s)
            if not told and event.left_s > _LONG_S:
                text = f"{cell}: looking at crash states takes {left}; --budget 32 for the fewest"
                self.options.on_event(Notice(text))
            told = True
            of = f" of {event.budget.states:,}" if event.budget.states else ""
            so_far = f"{event.states:,}{of}, {left} left"
            self.options.on_event(TrialPhase(cell, trial, Phase.EXPLORE, so_far))

        return hear


# Writes down how far a run has come while it is under way (powercut.store.progress).

EVERY_S: Final = 0.5


class ProgressFile:
    """Hears the events of a run, from several threads, and writes after them, twice a second at
    most: an event that comes sooner is written when the half second is over, though no other comes.
    """

    def __init__(
        self, folder: Path, plan: Plan, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder = folder
        self._now = now
        self._begun, self._written = now(), float("-inf")
        self._lock = Lock()
        self._due: Timer | None = None
        self._ended = False
        self._trials = Counter(cell.name for cell in plan.cells for _ in cell.trials)
        self._states_all = states_of(plan)
        self._cuts = plan.trials
        self._done = Counter[str]()
        self._controls = self._before = self._cells_done = 0
        self._verdicts = Counter[Verdict]()
        self._rates: dict[tuple[str, int], tuple[int, float]] = {}
        self._busy: dict[tuple[str, int], Busy] = {}

    def __call__(self, event: RunEvent) -> None:
        with self._lock:
            match event:
                case RunStarted():
                    self._cuts = event.trials
                case TrialPhase():
                    key = event.cell, event.trial
                    self._busy[key] = Busy(
                        cell=event.cell, trial=event.trial, phase=event.phase.value
                    )
                case TrialFinished():
                    self._finished(event)
            self._write_soon()

    def _finished(self, event: TrialFinished) -> None:
        key = event.cell, event.trial
        self._busy.pop(key, None)
        self._verdicts[event.verdict] += 1
        self._before += event.earlier
        if event.control:
            self._controls += 1
        else:
            self._done[event.cell] += 1
            self._cells_done += self._done[event.cell] == self._trials.get(event.cell)

    def states(self, cell: str, trial: int) -> Callable[[ExploreProgress], None]:
        """Hears how far the exploration of one trial is."""
        key = cell, trial

        def hear(event: ExploreProgress) -> None:
            with self._lock:
                self._rates[key] = event.states, event.seconds
                if (busy := self._busy.get(key)) is not None:
                    update = {"states": event.states, "states_all": event.budget.states}
                    self._busy[key] = busy.model_copy(update=update)
                self._write_soon()

        return hear

    def remove(self) -> None:
        """The run has come to its end."""
        with self._lock:
            self._ended = True
            if self._due is not None:
                self._due.cancel()
            remove_progress(self._folder)

    def _write_soon(self) -> None:
        if self._due is not None or self._ended:
            return
        wait_s = self._written + EVERY_S - self._now()
        if wait_s <= 0:
            self._write()
            return
        self._due = Timer(wait_s, self._write_due)
        self._due.start()

    def _write_due(self) -> None:
        with self._lock:
            self._due = None
            if not self._ended:
                self._write()

    def _write(self) -> None:
        now = self._written = self._now()
        done = self._done.total() + self._controls
        seconds = sum(seconds for _, seconds in self._rates.values())
        states = sum(states for states, _ in self._rates.values())
        write_progress(
            self._folder,
            RunProgress(
                updated=time.time(),
                seconds=round(now - self._begun, 2),
                cells=len(self._trials),
                cells_done=self._cells_done,
                cuts=max(self._cuts, done),
                cuts_done=done,
                cuts_before=self._before,
                verdicts=dict(self._verdicts),
                states=states,
                states_per_s=round(states / seconds, 2) if seconds > 0 else 0.0,
                states_all=self._states_all,
                busy=tuple(self._busy.values()),
            ),
        )


def states_of(plan: Plan) -> int | None:
    """How many crash states the settings ask for in all trials; None if time ends some."""
    states = 0
    for cell in plan.cells:
        wanted = wanted_by(cell.parameters, 0)
        if wanted is None:
            continue
        if wanted.budget.states is None:
            return None
        states += wanted.budget.states * len(cell.trials)
    return states
