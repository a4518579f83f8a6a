# SPDX-License-Identifier: Apache-2.0
"""Clusters under test: how fast their crash states are recovered, and asked until all nodes agree.

A state is as slow as its nodes' start and their election, which wait more than they compute: what
counts is the time on the clock, with the jobs that `powercut run` takes by itself.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.figure import Figure
from powercut.campaign.runner import run_scenarios
from powercut.model.errors import HostError
from powercut.model.verdict import Verdict
from powercut.paths import PROGRAMS
from powercut.recover.uml.engine import unavailable

_SCENARIO: Final = """
powercut: 1
name: bench-{cluster.name}
controls: none
workload:
  kind: cluster
  command: "{cluster.program}"
  nodes: 3
  at_most: 60s
  state_timeout: 100s
filesystem: {{type: ext4}}
disk: {{size: 192MiB}}
cut: {{trigger: {{acks: 40}}}}
explore: {{budget: {cluster.states}}}
deadline: 10min
"""


@dataclass(frozen=True)
class _Cluster:
    """Three nodes of a `program`; `goal` is how many of its `states` a second there should be."""

    name: str
    program: Path
    states: int
    goal: float


_CLUSTERS: Final = (
    _Cluster("replicated", PROGRAMS / "replicated", 200, 5.0),
    _Cluster("etcd", PROGRAMS.parent / "clusters/etcd", 34, 0.5),
)


def bench_cluster_states() -> list[Figure]:
    """States per second of the planted log and of etcd, three nodes each.

    Raises HostError if User-Mode Linux does not work, or if an honest cluster is not SAFE.
    """
    if reasons := unavailable():
        raise HostError(f"programs cannot be run here: {'; '.join(reasons)}")
    return [figure for cluster in _CLUSTERS for figure in _rate(cluster)]


def _rate(cluster: _Cluster) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="powercut-bench-") as folder:
        scenario = Path(folder) / f"{cluster.name}.yaml"
        scenario.write_text(_SCENARIO.format(cluster=cluster))
        (run,) = run_scenarios([scenario], seed=1, results=Path(folder)).runs
    ((trial,),) = (cell.trials for cell in run.cells)
    if trial.verdict is not Verdict.SAFE or trial.states is None:
        raise HostError(f"{cluster.name} is not SAFE: {'; '.join(run.cells[0].reasons)}")
    rate = trial.states.states / trial.timings_s["explore"]
    yield Figure(f"{cluster.name}, 3 nodes", rate, cluster.goal, "the goal", "states/s", 1.0)
