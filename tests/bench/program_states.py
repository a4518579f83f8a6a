# SPDX-License-Identifier: Apache-2.0
"""Databases under test: how fast their crash states are recovered and checked.

Each product of workloads/programs that is installed here is recorded once, with its honest
settings, by `powercut run`.  Its states are then recovered and checked in two ways, in turn a few
at a time: as `explore` does (docs/where-a-program-runs.md), and all of it in
User-Mode Linux.  One job, so that a rate is that of one core; and states per second of processor
time, which what else the host does hardly changes.  Another checkout of powercut, if there is one
to compare with, is a third way.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.figure import Figure
from bench.in_turn import Explored, Way, explore_in_turn
from bench.program_commits import bench_program_commits
from powercut.campaign.runner import run_scenarios
from powercut.model.errors import HostError
from powercut.model.verdict import Verdict
from powercut.paths import PROGRAMS
from powercut.recover.uml.engine import unavailable
from powercut.store.layout import ResultDir
from powercut.store.trial_dir import TrialDir

ROUNDS: Final = 3
_SCENARIO: Final = """
powercut: 1
name: bench-{product.name}
controls: none
workload: {{kind: program, command: "{program}", at_most: 30s}}
disk: {{size: 512MiB, model: none}}
cut: {{trigger: {{acks: 200}}}}
explore: {{budget: 1}}
deadline: 5min
"""


@dataclass(frozen=True)
class Product:
    """A program of workloads/programs; how many states a round has in each way, and its goal.

    `goal` is in states per second and core.
    """

    name: str
    states: int
    states_in_guest: int
    goal: float | None = None


PRODUCTS: Final = (
    Product("sqlite", 400, 16, 100.0),
    Product("postgresql", 60, 6, 4.0),
    Product("mariadb", 40, 4),
    Product("etcd", 60, 6),
)


def bench_program_states(against: Path | None = None) -> list[Figure]:
    """States and commits per second of every product that works here.

    `against` is another checkout of powercut, which then explores the same states in turn.

    Raises HostError if User-Mode Linux does not, or if an honest product loses something.
    """
    if reasons := unavailable():
        raise HostError(f"programs cannot be run here: {'; '.join(reasons)}")
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="powercut-bench-") as folder:
        for product in PRODUCTS:
            trial = _recorded(product, Path(folder))
            if trial is not None:
                figures += _rates(product, trial, against)
                parameters = trial.read_record().parameters
                figures += bench_program_commits(product.name, parameters, trial.base_image)
    return figures


def _recorded(product: Product, folder: Path) -> TrialDir | None:
    """A recording of a product; None if there is none, as it is not installed."""
    scenario = folder / f"{product.name}.yaml"
    scenario.write_text(_SCENARIO.format(product=product, program=PROGRAMS / product.name))
    (run,) = run_scenarios([scenario], seed=1, results=folder).runs
    (cell,) = run.cells
    trial = ResultDir.open(Path(run.result_directory)).at(cell.trials[0].result_directory)
    return trial if trial.disk_log.with_suffix(".log").exists() else None


def _rates(product: Product, trial: TrialDir, against: Path | None) -> Iterator[Figure]:
    rounds = [_explored(product, trial, against, seed) for seed in range(ROUNDS)]

    def figure(name: str, rate: str, way: int, reference: str) -> Figure:
        here, there = (
            statistics.median(getattr(ways[at], rate) for ways in rounds) for at in (0, way)
        )
        return Figure(f"{product.name}, {name}", here, there, reference, "states/s")

    yield figure("one job", "states_per_s", 1, "all in the guest")
    busy = figure("by processor time", "states_per_processor_s", 1, "all in the guest")
    yield busy
    if product.goal is not None:
        yield Figure(busy.name, busy.value, product.goal, "the goal", "states/s", 1.0)
    if against is not None:
        yield figure("by processor time", "states_per_processor_s", 2, str(against))


def _explored(
    product: Product, trial: TrialDir, against: Path | None, seed: int
) -> Sequence[Explored]:
    ways = [
        Way("this powercut", product.states, seed=seed),
        Way("this powercut, all in the guest", product.states_in_guest, engine="uml", seed=seed),
    ]
    if against is not None:
        ways.append(Way(str(against), product.states, seed=seed, checkout=against))
    explored = explore_in_turn(trial, ways)
    for way, one in zip(ways, explored, strict=True):
        if one.verdict != Verdict.SAFE.name:
            raise HostError(
                f"{product.name} with honest settings is {one.verdict} by {way.name}: {one.lossy} "
                f"of {one.states} states lose something"
            )
    return explored
