# SPDX-License-Identifier: Apache-2.0
"""Very many trials on very many workers: time, memory and the size of the store.

Scheduler, dispatcher and controller are the real ones; the workers' trials cost nothing, and what
hosts say is not judged again here, so that what is measured is the cluster.

    POWERCUT_TRIALS=1000000 pytest -s -m campaign tests/vm/hosts/test_cluster_many_trials.py
"""

from __future__ import annotations

import os
import re
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from fake_machine import FAKE
from far_runs import hosts_in
from hosts_here import EngineHere, two_cells
from simulated_workers import Templates, simulated

from powercut.campaign.runner import run_scenarios
from powercut.cluster.engine import Engine
from powercut.cluster.local import scheduler
from powercut.cluster.run import ClusterRun
from powercut.model.verdict import Verdict
from powercut.scenario.load import parse_scenario
from powercut.scenario.machines import MACHINES

pytestmark = pytest.mark.campaign

TRIALS = int(os.environ.get("POWERCUT_TRIALS", "100000"))
WORKERS = 200


def run(engine, results, trials):
    text = two_cells("many", trials).partition("cells:")[0]
    (done,) = run_scenarios(
        [parse_scenario(text, Path("many.yaml"))],
        seed=7,
        results=results,
        run_of=partial(ClusterRun, engine),
    ).runs
    return done


def peak_mib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) >> 10


def processes(module: str) -> list[int]:
    """Of this test, by the module that they run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            argv = path.read_text().split("\0")
        except OSError:
            continue
        if module in argv and argv[0] == sys.executable:
            found.append(int(path.parent.name))
    return found


def test_many_trials_on_many_workers(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(MACHINES, "fake", FAKE)
    monkeypatch.setattr("powercut.cluster.run.ROOM", 0)
    templates = Templates(tmp_path / "templates.json")
    host = hosts_in(tmp_path)["alpha"]
    host.before = templates.note
    with EngineHere({"alpha": host}) as engine:
        run(engine, tmp_path / "one", 1)
    judged = []

    def believe(self, claim):
        judged.append(claim)
        self._ledger.set_judged(claim)

    monkeypatch.setattr(ClusterRun, "_judge", believe)
    with (
        scheduler() as address,
        simulated(address, WORKERS, tmp_path / "templates.json", tmp_path),
        Engine(address) as engine,
    ):
        begun = time.monotonic()
        done = run(engine, tmp_path / "results", TRIALS)
        seconds = time.monotonic() - begun
        peaks = {
            name: max(map(peak_mib, processes(name)), default=0)
            for name in ("powercut.cluster.dispatcher", "powercut.cluster.node")
        }
    (cell,) = done.cells
    assert (cell.verdict, cell.trials_in_all) == (Verdict.SAFE, TRIALS)
    assert len(done.fleet.hosts) == WORKERS
    assert {one.state for one in done.fleet.hosts} == {"took-part"}
    assert done.fleet.claims == TRIALS
    assert done.fleet.claims_judged >= TRIALS / 20
    store = sum(p.stat().st_size for p in Path(done.result_directory).rglob("*") if p.is_file())
    with capsys.disabled():
        sys.stdout.write(
            f"\n{TRIALS} trials on {WORKERS} workers: {seconds:.0f} s, {TRIALS / seconds:.0f}/s; "
            f"peak MiB: controller {peak_mib(os.getpid())}, {peaks}; store {store >> 20} MiB\n"
        )
