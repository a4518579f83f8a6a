# SPDX-License-Identifier: Apache-2.0
"""Measures all cells of scenarios, one after the other: side by side they would not be alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from powercut.model.errors import UsageError
from powercut.model.verdict import EvidenceLevel
from powercut.rig.rig import Rig
from powercut.scenario.choices import DiskModel
from powercut.scenario.load import Scenario, expand
from powercut.scenario.place import place_of
from powercut.scenario.plan import fresh_seed
from powercut.scenario.settings import Parameters, WalSettings
from powercut.store.layout import ResultDir
from powercut_extras.certify.measure.measure import measure_cell
from powercut_extras.certify.measurement import Measurement


@dataclass(frozen=True)
class MeasuredRun:
    """The cells of one scenario, and the folder that holds their evidence."""

    directory: Path
    measurements: tuple[Measurement, ...]


def is_measurable(parameters: Parameters) -> bool:
    """Whether a cell's commits can be counted at each layer: those of the workload wal, on one disk
    that powercut sees."""
    recorded = place_of(parameters).evidence_level is EvidenceLevel.RECORDED
    alone = not parameters.disk.also  # the hypervisor and the kernel count each disk separately
    return recorded and alone and isinstance(parameters.workload, WalSettings)


def measure_scenarios(
    scenarios: Sequence[Scenario],
    *,
    models: Sequence[DiskModel],
    commits: int,
    seed: int | None = None,
    only: Sequence[str] = (),
    results: Path,
    on_cell: Callable[[str], None] = lambda _: None,
) -> list[MeasuredRun]:
    """Measures every cell of the scenarios; see `measure_cell`.

    Raises UsageError if `only` selects nothing or a cell that is not measurable, before anything
    is measured, and HostError if this host cannot run anything at all.
    """
    plans = []
    for scenario in scenarios:
        root = scenario.settings.seed if seed is None else seed
        plans.append(expand(scenario, seed=fresh_seed() if root is None else root, only=only))
    for cell in (cell for plan in plans for cell in plan.cells):
        if not is_measurable(cell.parameters):
            raise UsageError(
                f"{cell.name}: what commits cost is measured of the workload wal, on one disk "
                "that powercut records",
                hint="leave the cell out: --only",
            )
    rig = Rig.find()
    runs = []
    for scenario, plan in zip(scenarios, plans, strict=True):
        rig.prepare(plan)
        directory = ResultDir.create(results, f"{plan.scenario}.cost", plan.seed)
        directory.write_scenario(scenario.text)
        directory.write_environment({"seed": plan.seed, **rig.environment()})
        measurements = []
        for cell in plan.cells:
            on_cell(cell.name)
            place = directory.measurement(cell.name)
            measurements.append(
                measure_cell(rig, plan.scenario, cell, place, models=models, commits=commits)
            )
        runs.append(MeasuredRun(directory.path, tuple(measurements)))
    return runs
