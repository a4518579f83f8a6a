# SPDX-License-Identifier: Apache-2.0
"""Whether another checkout of powercut makes the same disk of each state, and finds the same in it.

Recordings with losses and without, of several kinds of file systems and programs and one of them
long, are explored by both with several seeds, and once with life after recovery.  Every state
must be in both, with the same bytes on its whole disk and the same findings: who makes states
faster shows by this that they are the same states.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

from bench import states_told
from bench.figure import Figure
from powercut.campaign.runner import run_scenarios
from powercut.model.errors import HostError, UsageError
from powercut.paths import PROGRAMS, ROOT
from powercut.store.layout import ResultDir
from powercut.store.trial_dir import TrialDir

WAYS: Final = ((0, 0), (1, 0), (2, 16))
"""Explorations of each recording: a seed, and by how many records life goes on after recovery."""

_STATES: Final = 192
_TIMEOUT_S: Final = 600.0
_SCENARIO: Final = """
powercut: 1
name: bench-same-states
controls: none
disk: {model: none}
cut: {trigger: {acks: 300}}
explore: {budget: 1}
cells:
  - {name: xfs, filesystem.type: xfs}
  - {name: ext4, filesystem.type: ext4, workload.streams: 4}
  - {name: btrfs, filesystem.type: btrfs, filesystem.mount: [max_inline=0], disk.size: 300MiB}
  - {name: aligned, filesystem.type: ext4, workload.record: 4096, workload.streams: 8}
  - {name: lying, filesystem.type: xfs, disk.flush: ignored, disk.fua: ignored}
  - {name: long, filesystem.type: xfs, cut.trigger: {acks: 6000}}
  - {name: unsynced, filesystem.type: ext4, workload.sync: none}
"""
_PROGRAM: Final = f"""
powercut: 1
name: bench-same-states-of-a-program
controls: none
workload: {{kind: program, command: "{PROGRAMS / "sqlite"}", at_most: 30s}}
disk: {{size: 64MiB, model: none}}
cut: {{trigger: {{acks: 100}}}}
explore: {{budget: 1}}
"""

Told = Counter[str]


def bench_same_states(against: Path | None = None) -> list[Figure]:
    """How many states of each recording are the same in `against`, out of those told.

    Raises UsageError without another checkout, HostError at the first that is not.
    """
    if against is None:
        raise UsageError("same-states compares with another checkout", hint="name it by --against")
    with tempfile.TemporaryDirectory(prefix="powercut-bench-") as folder:
        trials = _recorded(Path(folder))
        return [compared(name, trial, against) for name, trial in trials]


def _recorded(folder: Path) -> list[tuple[str, TrialDir]]:
    trials = []
    for name, text in (("disks", _SCENARIO), ("sqlite", _PROGRAM)):
        scenario = folder / f"{name}.yaml"
        scenario.write_text(text)
        (run,) = run_scenarios([scenario], seed=1, results=folder).runs
        results = ResultDir.open(Path(run.result_directory))
        for cell in run.cells:
            trial = results.at(cell.trials[0].result_directory)
            trials.append((f"{name}: {cell.cell}", trial))
    return trials


def compared(name: str, trial: TrialDir, against: Path) -> Figure:
    """How many states of a recording are the same.  Raises HostError if one is not."""
    told = 0
    for seed, after in WAYS:
        here, there = (_told(trial, checkout, seed, after) for checkout in (ROOT, against))
        if here != there:
            only = [*(here - there)][:1] + [*(there - here)][:1]
            where = f"{name}, seed {seed}, after {after}"
            raise HostError(f"{where}: not the same states: {' and '.join(only)}")
        told += sum(here.values())
    return Figure(f"{name}, same disks and findings", told, told, str(against), "states", 1.0)


def _told(trial: TrialDir, checkout: Path, seed: int, after: int) -> Told:
    asked = {
        "trial": str(trial.path.resolve()),
        "run": str(trial.run.resolve()),
        "states": _STATES,
        "seed": seed,
        "after": after,
    }
    done = subprocess.run(
        [sys.executable, states_told.__file__, json.dumps(asked)],
        env=os.environ | {"PYTHONPATH": str(checkout / "harness")},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=_TIMEOUT_S,
    )
    if done.returncode != 0 or not done.stdout:
        raise HostError(f"the exploration by {checkout} failed: what it said is above")
    return Counter(done.stdout.splitlines())
