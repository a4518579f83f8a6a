# SPDX-License-Identifier: Apache-2.0
"""What stores acknowledge after an error of the disk, and whether a power cut takes it.

Each trial runs one of workloads/programs on a disk that fails one request, the n-th write or flush
since the store was ready, as `powercut run` would.  Its clients go on after the error
(`after_error=go-on`), or all processes are started anew (`after_error=restart`).  Then the
power goes, or only the kernel crashes.

`powercut bench disk-errors` tries them all, which takes hours on a small host; by name,
`disk-errors:sqlite,flush`, those that have all of these properties.  Each trial becomes a line of
build/disk-errors/trials.jsonl, and one that has its line is not run again.  What is LOSSY keeps its
results beside that file.  docs/measured/disk-errors.md has the tables.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from bench.figure import Figure
from bench.kept import Kept
from powercut.campaign.runner import run_scenarios
from powercut.disk.pclog import injected_errors
from powercut.model.errors import UsageError
from powercut.model.verdict import Verdict
from powercut.paths import BUILD, PROGRAMS
from powercut.recording.sealed import open_trial
from powercut.store.layout import ResultDir
from powercut.store.trial_dir import TrialDir

KEPT: Final = Kept(BUILD / "disk-errors")
STORES: Final = {
    "sqlite": "sqlite",
    "sqlite-extra": "sqlite journal=delete synchronous=extra",
    "lmdb": "lmdb",
    "redis": "redis",
    "postgresql": "postgresql",
    "rocksdb": "rocksdb library=build/disk-errors/librocksdb.so.7.8",
    "etcd": "etcd binary=build/disk-errors/etcd",
}
"""Programs with settings under which all that they acknowledge is durable."""

KINDS: Final = ("write", "flush")
"""The disk of User-Mode Linux has no FUA: the kernel flushes after the write."""

AFTER: Final = ("go-on", "restart")
CUTS: Final = ("power-loss", "guest-crash")
_STEPS: Final = (40, 20, 10, 5)
"""The n-th requests, ever denser: 1, 41, 81 ..., then those between."""

REQUESTS: Final = 200
_SCENARIO: Final = """
powercut: 1
name: disk-errors
workload:
  kind: program
  command: "{programs}/{command} after_error={one.after}"
  at_most: 40s
  env: ["LD_LIBRARY_PATH={build}/disk-errors"]
filesystem: {{type: ext4}}
cut: {{kind: {one.cut}, trigger: {{acks: 300}}}}
explore: {{budget: 32}}
deadline: 3min
cells:
"""
_CELL: Final = """
  - {{name: {one.on}-{one.nth}, disk.errors: [{{on: {one.on}, nth: {one.nth}}}]}}
"""


@dataclass(frozen=True)
class Error:
    """One store, which meets one error."""

    store: str
    on: str
    nth: int
    after: str
    cut: str

    @property
    def words(self) -> frozenset[str]:
        """What it can be chosen by."""
        step = max(step for step in _STEPS if (self.nth - 1) % step == 0)
        return frozenset({self.store, self.on, f"step-{step}", self.after, self.cut})

    def __str__(self) -> str:
        return f"{self.store}-{self.on}-{self.nth}-{self.after}-{self.cut}"


@dataclass(frozen=True)
class Outcome:
    """What became of it: `later` operations were acknowledged after the error."""

    error: Error
    met: bool
    acked: int
    later: int
    lost: int
    verdict: str
    reason: str

    @property
    def lossy(self) -> bool:
        """Whether something that was acknowledged is gone, or a state is damaged."""
        return self.verdict == Verdict.LOSSY.name.lower()

    def __str__(self) -> str:
        what = "went on" if self.later else "stopped" if self.met else "met none"
        return f"{self.error}: {what}, {self.acked} acknowledged, {self.lost} lost, {self.verdict}"


def outcome_of(told: Mapping[str, Any]) -> Outcome:
    """What `asdict` has made a line of."""
    return Outcome(**{**told, "error": Error(**told["error"])})


def batches() -> Iterator[list[Error]]:
    """All errors; those of one batch are cells of one scenario, and have their controls in common.
    After some of each there is a table worth reading."""
    for step, cut, after, store in product(_STEPS, CUTS, AFTER, STORES):
        if cut == CUTS[0] or after == AFTER[0]:
            nths = range(1, REQUESTS + 1, step)
            batch = [Error(store, on, nth, after, cut) for nth, on in product(nths, KINDS)]
            yield [error for error in batch if f"step-{step}" in error.words]


def run_errors(chosen: Sequence[Error], kept: Kept) -> Iterator[Outcome]:
    """The outcome of each error of a batch, those of earlier runs from their lines."""
    done = {one.error: one for one in map(outcome_of, kept.lines())}
    yield from (done[error] for error in chosen if error in done)
    if left := [error for error in chosen if error not in done]:
        with tempfile.TemporaryDirectory(prefix="powercut-bench-") as name:
            outcomes = list(_run(left, Path(name)))
            for outcome in outcomes:
                kept.add(asdict(outcome))
            if any(outcome.lossy for outcome in outcomes):
                shutil.copytree(name, kept.folder / str(left[0]), symlinks=True, dirs_exist_ok=True)
        yield from outcomes


def _run(batch: Sequence[Error], folder: Path) -> Iterator[Outcome]:
    scenario = folder / "run.yaml"
    command = STORES[batch[0].store].replace("build/", f"{BUILD}/")
    text = _SCENARIO.format(one=batch[0], programs=PROGRAMS, command=command, build=BUILD)
    scenario.write_text(text + "".join(_CELL.format(one=error) for error in batch))
    (done,) = run_scenarios([scenario], seed=1, results=folder).runs
    results = ResultDir.open(Path(done.result_directory))
    for error, cell in zip(batch, done.cells, strict=True):
        (trial,) = cell.trials
        yield Outcome(
            error, bool(trial.injected), cell.commits_acked,
            _acked_later(results.at(trial.result_directory)) if trial.injected else 0,
            cell.commits_lost, cell.verdict.name.lower(), "; ".join(cell.reasons)[:600],
        )  # fmt: skip


def _acked_later(trial: TrialDir) -> int:
    """How many operations were acknowledged after the first error."""
    recording = open_trial(trial)
    first = int(injected_errors(recording.timeline)[0][0])
    history = recording.promises.requirements
    return int((history.ack_ns > first).sum())


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """A row for each store and kind of request: how often it stopped, went on, and lost."""
    rows = [
        "| store | error | then | tried | met | stopped | went on | acknowledged later "
        "| SAFE | LOSSY |",
        "| --- | --- | --- | --: | --: | --: | --: | --: | --: | --: |",
    ]
    for store, on, after, cut in product(STORES, KINDS, AFTER, CUTS):
        of = [
            one for one in outcomes
            if one.error.words >= {store, on, after, cut}
        ]  # fmt: skip
        if of:
            met = [one for one in of if one.met]
            on_after = sum(1 for one in met if one.later)
            counts = (
                len(of), len(met), len(met) - on_after, on_after, sum(one.later for one in met),
                sum(one.verdict == "safe" for one in met), sum(one.lossy for one in of),
            )  # fmt: skip
            told = " | ".join(f"{count:,}" for count in counts)
            rows.append(f"| {store} | {on} | {after}, {cut} | {told} |")
    return rows


def bench_disk_errors(properties: str = "") -> list[Figure]:
    """How many of the trials that have all of the properties lose nothing; prints each.

    Raises UsageError for properties that none has.
    """
    console = Console(soft_wrap=True)
    wanted = frozenset(properties.split(",")) - {""}
    chosen = [[error for error in batch if wanted <= error.words] for batch in batches()]
    if not any(chosen):
        raise UsageError(f"no trial of disk-errors is {properties}")
    outcomes = []
    for batch in filter(None, chosen):
        for outcome in run_errors(batch, KEPT):
            console.print(str(outcome))
            outcomes.append(outcome)
    console.print("\n".join(table(outcomes)))
    kept = sum(not one.lossy for one in outcomes)
    return [Figure("errors of the disk, not LOSSY", kept, len(outcomes), "all", "trials")]
