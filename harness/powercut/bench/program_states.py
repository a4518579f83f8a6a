# SPDX-License-Identifier: Apache-2.0
"""Databases under test: how fast their crash states are recovered and checked.

Each product of workloads/programs that is installed here is recorded once, with its honest
settings, by `powercut run`.  Its states are then recovered and checked in two ways, in turn: as
`explore` does (docs/adding-a-program.md, "Where `check` runs"), and all of it in User-Mode Linux.
One job, so that a rate is that of one core; and states per second of processor time, which what
else the host does hardly changes.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from powercut.bench.figure import Figure
from powercut.bench.program_commits import bench_program_commits
from powercut.campaign.runner import run_scenarios
from powercut.explore.explorer import explore
from powercut.explore.request import Budget, ExploreRequest
from powercut.model.errors import HostError
from powercut.model.verdict import Verdict
from powercut.paths import PROGRAMS
from powercut.recover.uml.engine import unavailable
from powercut.store.exploration import ExploreResult
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


def bench_program_states() -> list[Figure]:
    """States and commits per second of every product that works here.

    Raises HostError if User-Mode Linux does not, or if an honest product loses something.
    """
    if reasons := unavailable():
        raise HostError(f"programs cannot be run here: {'; '.join(reasons)}")
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="powercut-bench-") as folder:
        for product in PRODUCTS:
            trial = _recorded(product, Path(folder))
            if trial is not None:
                figures += _rates(product, trial)
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


def _rates(product: Product, trial: TrialDir) -> Iterator[Figure]:
    here, guest = [], []
    for seed in range(ROUNDS):
        here.append(_explored(trial, "auto", product.states, seed))
        guest.append(_explored(trial, "uml", product.states_in_guest, seed))
    wall = [statistics.median(one.states_per_s for one in way) for way in (here, guest)]
    busy = [statistics.median(one.states_per_processor_s for one in way) for way in (here, guest)]
    against = "all in the guest"
    yield Figure(f"{product.name}, one job", wall[0], wall[1], against, "states/s")
    name = f"{product.name}, by processor time"
    yield Figure(name, busy[0], busy[1], against, "states/s")
    if product.goal is not None:
        yield Figure(name, busy[0], product.goal, "the goal", "states/s", 1.0)


def _explored(trial: TrialDir, engine: str, states: int, seed: int) -> ExploreResult:
    wanted = ExploreRequest(budget=Budget(states=states), engine=engine, jobs=1, seed=seed)
    result = explore(trial, wanted, keep=False)
    if result.verdict is not Verdict.SAFE:
        first = result.findings[0].examples[0].message
        raise HostError(f"{result.cell}: {result.verdict.name} with honest settings: {first}")
    return result
