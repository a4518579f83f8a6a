# SPDX-License-Identifier: Apache-2.0
"""How many crash states of real recordings it takes until a known fault is found.

bench.representatives asks the same of small programs.  Here file systems with known faults
(docs/known-faults.md) and databases with unsafe settings (workloads/programs) are recorded in
User-Mode Linux, and the kernel that has the fault recovers their states.  A state is judged once,
however many ways of selecting draw it.

It takes hours on a small host: `powercut bench` runs it by name only.
"""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from bench.figure import Figure
from bench.representatives import UNIFORM, selected
from powercut.campaign.runner import run_scenarios
from powercut.crash.shapes import POLICY
from powercut.crash.states import CrashState
from powercut.explore.disks import names_of
from powercut.explore.state_judge import Judgement, open_judge
from powercut.model.verdict import Verdict
from powercut.model.versions import HOST
from powercut.paths import PROGRAMS
from powercut.recording.disk import DiskRecording
from powercut.recording.sealed import open_trial
from powercut.store.layout import ResultDir
from powercut.store.trial_dir import TrialDir

SEEDS: Final = 3
STATES_MAX: Final = 40
"""States after which a fault counts as not found."""

WAYS: Final = (POLICY, UNIFORM)

_SCENARIO: Final = """
powercut: 1
name: bench-recorded-faults
controls: none
workload:
  kind: program
  command: "{program} {one.arguments}"
  kernel: {one.kernel}
  at_most: 4min
filesystem: {one.filesystem}
disk: {{size: {one.size}, model: none}}
cut: {{trigger: {{acks: {one.acks}}}}}
explore: {{budget: 1}}
deadline: 15min
"""


@dataclass(frozen=True)
class FaultyRun:
    """A run of a program that meets faults.

    Its operations repeat with `period`: `faults` names those that are faulty, counted from 0.
    """

    name: str
    program: str
    arguments: str
    faults: dict[int, str]
    period: int = 1
    acks: int = 60
    filesystem: str = "{type: ext4}"
    size: str = "160MiB"
    kernel: str = HOST

    def found(self, judgement: Judgement) -> frozenset[str]:
        """The faults that show in a state."""
        if not judgement.lossy:
            return frozenset()
        lost = {(lsn - 1) % self.period for lsn in judgement.lsns}
        if self.period == 1:
            lost = {0}  # nothing can be read, perhaps
        return frozenset(name for number, name in self.faults.items() if number in lost)


FILE_SYSTEMS: Final = (
    FaultyRun(
        "ext4, fast commits", "known", "turns=12 case=fast-commit",
        {0: "12, range zeroed", 1: "13, new file punched", 2: "15, extents moved",
         3: "16, format migrated"},
        period=4, acks=12, filesystem="{type: ext4, mkfs: [-O, fast_commit]}", kernel="bullseye",
    ),
    FaultyRun(
        "ext4, direct", "known", "turns=10 case=direct-and-synced", {0: "17, direct and synced"},
        acks=10, kernel="bullseye",
    ),
    FaultyRun(
        "XFS, grown", "known", "turns=1 case=grown-and-used", {0: "18, grown and used"},
        acks=1, size="320MiB",
        filesystem='{type: xfs, mkfs: [--unsupported, -d, "size=160m,agcount=4"]}',
    ),
    FaultyRun(
        "XFS, shared", "known", "turns=4 case=clone-written-in-place", {0: "22, clone written"},
        acks=4, filesystem="{type: xfs}", size="320MiB",
    ),
    FaultyRun(
        "btrfs, later", "known", "turns=12 case=later",
        {0: "19, zero size, then linked", 2: "21, folder removed"},
        period=3, acks=12, filesystem="{type: btrfs}",
    ),
    FaultyRun(
        "btrfs", "known", "turns=20", {3: "4, symbolic link renamed", 5: "6, removed and synced"},
        period=10, acks=20, filesystem="{type: btrfs, mkfs: [-O, ^no-holes]}",
    ),
)  # fmt: skip
"""Known faults by their numbers in docs/known-faults.md; an operation is a turn of a sequence."""

UNSAFE_SETTINGS: Final = (
    ("sqlite", "synchronous=normal"),
    ("sqlite", "journal=delete"),
    ("sqlite", "journal=delete synchronous=off"),
    ("sqlite", "journal=truncate synchronous=normal"),
    ("lmdb", "metasync=off"),
    ("lmdb", "sync=off"),
    ("lmdb", "writemap=on mapasync=on"),
    ("rocksdb", "sync=off"),
)
"""Programs of workloads/programs and what makes each lose what it acknowledges."""

RUNS: Final = FILE_SYSTEMS + tuple(
    FaultyRun(f"{program} {setting}", program, setting, {0: f"{program} {setting}"}, size="512MiB")
    for program, setting in UNSAFE_SETTINGS
)


def bench_recorded_faults() -> list[Figure]:
    """States until each fault is found, by representatives against uniform sampling; prints the
    numbers of every seed besides.  A program that is not installed is left out, by name.

    Raises HostError if an engine does not work here.
    """
    console = Console()
    found: dict[str, dict[str, list[float]]] = {}
    for run in RUNS:
        with tempfile.TemporaryDirectory(prefix="powercut-bench-") as folder:
            trial = _recorded(run, Path(folder))
            if trial is None:
                console.print(f"{run.name}: left out, since the program acknowledged nothing here")
                continue
            found |= _searched(run, open_trial(trial), console)
    console.print(_table(found))
    return list(_figures(found))


def _recorded(run: FaultyRun, folder: Path) -> TrialDir | None:
    """A recording of a run; None if nothing was acknowledged."""
    scenario = folder / "run.yaml"
    scenario.write_text(_SCENARIO.format(one=run, program=PROGRAMS / run.program))
    (done,) = run_scenarios([scenario], seed=1, results=folder).runs
    (cell,) = done.cells
    trial = ResultDir.open(Path(done.result_directory)).at(cell.trials[0].result_directory)
    if not trial.disk_log.with_suffix(".log").exists():
        return None
    return trial if cell.trials[0].commits_acked else None


def _searched(
    run: FaultyRun, recording: DiskRecording, console: Console
) -> dict[str, dict[str, list[float]]]:
    """For each fault and way the states until it was found, by seed."""
    undecided: list[str] = []
    with open_judge(recording, kernel=run.kernel) as judge:

        def found_in(state: CrashState) -> frozenset[str]:
            judgement = judge.judge(state)
            if judgement.verdict is Verdict.INCONCLUSIVE:
                undecided.append(judgement.message)
            return run.found(judgement)

        found = search(recording, run.faults.values(), found_in)
    if undecided:
        console.print(f"{run.name}: {len(undecided)} states are not decided: {undecided[0]}")
    return found


def search(
    recording: DiskRecording,
    faults: Iterable[str],
    found_in: Callable[[CrashState], frozenset[str]],
    ways: Sequence[str] = WAYS,
) -> dict[str, dict[str, list[float]]]:
    """For each of `faults` and ways the states until it was found, for each seed; infinite if
    STATES_MAX do not show it.  `found_in` judges a state, and is asked once for each.
    """
    known: dict[CrashState, frozenset[str]] = {}
    found: dict[str, dict[str, list[float]]] = {
        fault: {way: [math.inf] * SEEDS for way in ways} for fault in faults
    }
    names, begin_ns = names_of(recording), int(recording.timeline.start_ns)
    for way, seed in product(ways, range(SEEDS)):
        drawn = selected(recording.space, begin_ns, way, seed, names)
        for count, state in enumerate(islice(drawn, STATES_MAX), 1):
            key = replace(state, policy="")
            if key not in known:
                known[key] = found_in(state)
            for fault in known[key]:
                found[fault][way][seed] = min(count, found[fault][way][seed])
            if all(math.isfinite(ways[way][seed]) for ways in found.values()):
                break
    return found


def _figures(found: dict[str, dict[str, list[float]]]) -> Iterator[Figure]:
    """The medians; not found counts as one state more than were looked at."""
    for fault, ways in found.items():
        ours, theirs = (
            min(statistics.median_low(ways[way]), STATES_MAX + 1.0) for way in (POLICY, UNIFORM)
        )
        yield Figure(f"{fault}, states until found", ours, theirs, UNIFORM, "states")


def _table(found: dict[str, dict[str, list[float]]]) -> Table:
    """A line a fault: the states of each way, by seed."""
    table = Table(title=f"states until found, {SEEDS} seeds; at most {STATES_MAX}")
    for column in ("fault", *WAYS):
        table.add_column(column, justify="left" if column == "fault" else "right")
    for fault, ways in found.items():
        table.add_row(fault, *(", ".join(map(_told, ways[way])) for way in WAYS))
    return table


def _told(states: float) -> str:
    return f"{states:.0f}" if math.isfinite(states) else f">{STATES_MAX}"
