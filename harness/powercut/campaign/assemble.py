# SPDX-License-Identifier: Apache-2.0
"""From judged trials to verdicts on cells and on the run; live and offline alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from powercut.model.verdict import FindingKind, Verdict
from powercut.scenario.plan import Cell, Plan
from powercut.scenario.settings import Expect
from powercut.store.layout import ResultDir, reproduce_command
from powercut.store.results import CellResult, ControlResult
from powercut.store.trial_result import TrialResult
from powercut.trial.controls import Control, controls_for, same_run
from powercut.verdict.controls import with_controls

Trials = Mapping[str, Sequence[TrialResult]]
"""The judged trials of each cell, by its name."""


@dataclass(frozen=True)
class Outcome:
    """A run that may serve as a control, and its own verdict."""

    name: str
    verdict: Verdict
    directory: str
    doubt: str = ""

    @classmethod
    def of(cls, name: str, result: TrialResult) -> Self:
        doubt = doubt_of(result)
        return cls(name, as_control(result), result.result_directory, doubt)


def doubt_of(result: TrialResult) -> str:
    """Why a trial that is LOSSY shows nothing of how the rig sees losses; empty if it does.

    On a disk that lies, and without a sync, the analysis of the recording alone convicts.
    Whoever cuts, recovers and reads is shown to see a loss only by records that did not come
    back, and by nothing else than those that the recording names.
    """
    if result.verdict is not Verdict.LOSSY:
        return ""
    if not result.live_losses:
        return "its records came back; only its recording or other crash states convict it"
    if any(finding.kind is FindingKind.DISAGREEMENT for finding in result.findings):
        return "what came back is not what its recording says"
    return ""


def as_control(result: TrialResult) -> Verdict:
    """The verdict of a trial that serves as a control: LOSSY if its loss was seen."""
    return Verdict.INCONCLUSIVE if doubt_of(result) else result.verdict


Known = dict[str, Outcome]
"""Outcomes by `same_run`."""


def vouched_for(trials: Sequence[TrialResult]) -> Verdict:
    """The verdict that controls are to vouch for: that of the trials of which something is known.

    A cell of which some cuts came to nothing stays INCONCLUSIVE.  Whether the rig would have seen a
    loss in its other cuts is worth knowing all the same.
    """
    return Verdict.worst(t.verdict for t in trials if t.verdict is not Verdict.INCONCLUSIVE)


def outcomes_of_cells(plan: Plan, trials: Trials) -> Known:
    """Cells may serve as each other's controls: the worst trial of each stands for it.

    That is the first that lost, for an honest twin and for a lying disk alike.
    """
    known: Known = {}
    for cell in plan.cells:
        worst = max(trials[cell.name], key=as_control)
        outcome = Outcome.of(f"cell {cell.name}", worst)
        known.setdefault(same_run(cell.parameters), outcome)
    return known


def missing_controls(plan: Plan, trials: Trials, known: Known) -> dict[str, tuple[str, Control]]:
    """The controls that the verdicts of `trials` need and that are still to run, by name."""
    wanted: dict[str, tuple[str, Control]] = {}
    for cell in plan.cells:
        for control in controls_for(cell.parameters, vouched_for(trials[cell.name])):
            key = same_run(control.parameters)
            if key not in known:
                wanted.setdefault(key, (f"{control.name}-{cell.name}", control))
    return wanted


def cell_results(
    plan: Plan,
    trials: Trials,
    known: Known,
    directory: ResultDir,
) -> tuple[CellResult, ...]:
    """The verdict on every cell, with its controls heard."""
    options = directory.options()
    return tuple(
        _cell_result(plan, cell, trials[cell.name], known, directory, options)
        for cell in plan.cells
    )


def distinct_controls(cells: Iterable[CellResult]) -> tuple[ControlResult, ...]:
    """Every control once."""
    controls = {(c.kind, c.result_directory): c for cell in cells for c in cell.controls}
    return tuple(controls.values())


def _cell_result(
    plan: Plan,
    cell: Cell,
    trials: Sequence[TrialResult],
    known: Known,
    directory: ResultDir,
    options: Sequence[str],
) -> CellResult:
    own = Verdict.worst(trial.verdict for trial in trials)
    wanted = controls_for(cell.parameters, vouched_for(trials))
    controls = [_control_result(control, known) for control in wanted]
    verdict, reasons = with_controls(own, controls)
    return CellResult.of(
        plan.scenario,
        cell,
        trials,
        verdict=verdict,
        controls=controls,
        reasons=reasons,
        reproduce=reproduce_command(directory.scenario_copy, plan.seed, cell, options=options),
        result_directory=str(Path(trials[0].result_directory).parent) if trials else "",
    )


def _control_result(control: Control, known: Known) -> ControlResult:
    unknown = Outcome("a control without a recording", Verdict.INCONCLUSIVE, "")
    outcome = known.get(same_run(control.parameters), unknown)
    behaved = outcome.verdict is control.expected
    return ControlResult(
        kind=control.kind,
        disk=control.disk,
        expected=Expect.SAFE if control.expected is Verdict.SAFE else Expect.LOSSY,
        verdict=outcome.verdict,
        behaved=behaved,
        message=f"{outcome.name} is {outcome.verdict.name}"
        + ("" if behaved else f", and had to be {control.expected.name}")
        + (f": {outcome.doubt}" if outcome.doubt else ""),
        result_directory=outcome.directory,
    )
