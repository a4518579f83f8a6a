# SPDX-License-Identifier: Apache-2.0
"""Explores the crash states of one recording: draw, recover, judge, add up.

What is checked, and what follows from it:

1. Each state is legal at its instant (crash/states.py), and is judged against what was
   required and attempted at that instant.
2. A state that an engine could not recover for reasons of its own is INCOMPLETE.
3. What exposure analysis calls exposed must be lost in some state, if every ack was
   looked at with nothing but the durable writes; and in a raw log nothing else may be
   lost.  Otherwise the two disagree, and that is a bug in powercut.
4. Nothing found in states that were checked is SAFE; no state checked is not.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final

import numpy as np

from powercut import __version__
from powercut.checkers.wal import ranges_text
from powercut.crash.explore import Exploration, InstantKind, events
from powercut.crash.exposure import exposure
from powercut.crash.policies import POLICIES
from powercut.crash.states import CrashState, Model
from powercut.model.errors import HostError, UsageError
from powercut.model.machine import ImageFormat
from powercut.model.verdict import Finding, FindingKind, Verdict, lsn_ranges
from powercut.recover.uml import unavailable
from powercut.run import commands, state_ref
from powercut.run.explore_engines import StateImages
from powercut.run.explore_findings import Collected
from powercut.run.explore_raw import RawExploration, RawOptions
from powercut.run.explore_worker import (
    LocalWorker,
    OneWorker,
    Prune,
    Work,
    WorkerPool,
    judge_state,
    open_engine,
)
from powercut.run.recorded import Recorded, open_recorded
from powercut.run.scratch import scratch
from powercut.store.exploration import (
    Confirmed,
    ExploreCoverage,
    ExploreResult,
    write_exploration,
)
from powercut.store.layout import TrialDir

ENGINES: Final = ("auto", "raw", "uml", "guest")
PER_POLICY: Final = 1024
"""States that one policy draws at one instant at most."""

_BATCH: Final = 16
_BLOCK: Final = 16  # instants that stay together when they are shuffled
_EVENT_S: Final = 0.2


@dataclass(frozen=True)
class Budget:
    """How many states may be checked, or for how long (seconds); None for no such bound."""

    states: int | None = None
    seconds: float | None = None

    @staticmethod
    def parse(text: str) -> Budget:
        """`10000` (states), `90s`, `5m` or `1h`.  Raises UsageError."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|min|h|)", text.strip())
        number = float(found.group(1)) if found else 0.0
        if not found or not number or (not found.group(2) and not number.is_integer()):
            raise UsageError(
                f"budget {text!r}: neither a number of states nor a time",
                hint="for example 10000, 60s, 5m",
            )
        if not found.group(2):
            return Budget(states=int(number))
        return Budget(seconds=number * {"s": 1, "m": 60, "min": 60, "h": 3600}[found.group(2)])

    def __str__(self) -> str:
        if self.seconds is not None:
            return f"{self.seconds:g}s"
        return "no bound" if self.states is None else str(self.states)


@dataclass(frozen=True)
class ExploreProgress:
    """How far an exploration has come; `rate_s` is states per second."""

    states: int
    lossy_states: int
    seconds: float
    budget: Budget
    doing: str

    @property
    def rate_s(self) -> float:
        """States per second so far."""
        return self.states / self.seconds if self.seconds > 0 else 0.0


Listener = Callable[[ExploreProgress], None]


@dataclass(frozen=True)
class Wanted:
    """What is to be explored, checked for sense."""

    model: Model = Model.EXACT
    policies: tuple[str, ...] = tuple(POLICIES)
    at: tuple[InstantKind, ...] = tuple(InstantKind)
    budget: Budget = Budget(states=10_000)
    engine: str = "auto"
    jobs: int = 1
    seed: int = 0
    prune: Prune = Prune.BYTES
    confirm: bool = True
    per_policy: int = PER_POLICY

    def __post_init__(self) -> None:
        for name in self.policies:
            if name not in POLICIES:
                raise UsageError(
                    f"there is no policy {name!r}", hint="choose from " + ", ".join(POLICIES)
                )
        if self.engine not in ENGINES:
            raise UsageError(
                f"there is no engine {self.engine!r}", hint="choose from " + ", ".join(ENGINES)
            )


def explore(
    trial: TrialDir,
    wanted: Wanted | None = None,
    *,
    on_event: Listener = lambda _: None,
) -> ExploreResult:
    """Explores the recording in `trial` and leaves exploration.json beside it.

    Raises UsageError for an engine that cannot do this recording, HostError if this host
    cannot run it, DamagedRecording if there is nothing to explore.
    """
    recorded = open_recorded(trial)
    run = _Run(recorded, wanted or Wanted(), on_event)
    result = run.explore()
    write_exploration(trial, result)
    return result


def choose_engine(recorded: Recorded, name: str) -> str:
    """The engine that `auto` means for this recording; others as they are called.

    Raises UsageError if `name` cannot do it.
    """
    image_format = recorded.parameters.machine.format
    if image_format is not ImageFormat.RAW:
        if name in ("auto", "guest"):
            return "guest"
        raise UsageError(
            f"the disk lies in a {image_format.value} image: only QEMU can open it",
            hint="--engine guest",
        )
    raw = commands.is_raw(recorded.parameters)
    if raw and name in ("auto", "raw"):
        return "raw"
    if raw:
        raise UsageError(
            f"the log lies on the device itself: there is nothing to mount for engine {name}",
            hint="--engine raw",
        )
    if name == "raw":
        raise UsageError(
            "engine raw reads logs on a raw device, and this one lies in a file system",
            hint="--engine uml, or guest",
        )
    if name != "auto":
        return name
    return "guest" if unavailable() else "uml"


def jobs_by_default() -> int:
    """Engines that this host can keep busy."""
    return max(1, len(os.sched_getaffinity(0)))


def in_blocks(instants: np.ndarray[Any, Any], seed: int) -> np.ndarray[Any, Any]:
    """Neighbours stay together, so that states differ little; blocks come in random order."""
    blocks = [instants[at : at + _BLOCK] for at in range(0, len(instants), _BLOCK)]
    order = np.random.default_rng(seed).permutation(len(blocks))
    return np.concatenate([blocks[i] for i in order]) if blocks else instants


class _Run:
    """One exploration."""

    def __init__(self, recorded: Recorded, wanted: Wanted, on_event: Listener) -> None:
        self.recorded = recorded
        self.wanted = wanted
        self.on_event = on_event
        self.engine = choose_engine(recorded, wanted.engine)
        self.collected = Collected()
        self.boots = 0
        self.checked = self.pruned = self.rerun = self.compared = 0
        self.began = time.monotonic()
        self._told = 0.0
        space = recorded.space
        self.exploration: Exploration | RawExploration = Exploration(
            space,
            in_blocks(events(space, wanted.at), wanted.seed),
            wanted.policies,
            model=wanted.model,
            seed=wanted.seed,
            per_policy=wanted.per_policy,
            limit=wanted.budget.states,
        )

    def explore(self) -> ExploreResult:
        """All of it."""
        for gap in self.recorded.gaps:
            self.collected.add_general(
                Finding(FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, f"the recording: {gap}")
            )
        self._tell("starting", force=True)
        if self.engine == "raw":
            self._explore_raw()
        else:
            self._explore_with_engines()
        seconds = time.monotonic() - self.began
        self._compare_with_exposure()
        if not self.checked:
            self.collected.add_general(
                Finding(FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, "no state was checked")
            )
        self._tell("confirming", force=True)
        return self._result(seconds)

    def _explore_raw(self) -> None:
        wanted = self.wanted
        with scratch() as folder:
            options = RawOptions(
                wanted.model,
                wanted.policies,
                wanted.at,
                wanted.seed,
                wanted.per_policy,
                wanted.budget.states,
                folder,
            )
            raw = RawExploration(self.recorded, options, self.collected)
            self.began = time.monotonic()
            raw.run(lambda: self._more(raw))
        self.exploration = raw
        self.checked, self.compared = raw.checked, raw.compared

    def _more(self, raw: RawExploration) -> bool:
        self.checked = raw.checked
        self._tell("exploring")
        seconds = self.wanted.budget.seconds
        return seconds is None or time.monotonic() < self.began + seconds

    def _explore_with_engines(self) -> None:
        work = Work(
            self.recorded.trial.path,
            self.recorded.trial.run,
            self.engine,
            self.wanted.prune,
            self.wanted.seed,
        )
        if self.wanted.jobs > 1:
            with WorkerPool(work, self.wanted.jobs) as pool:
                self._judge_all(pool)
        else:
            with LocalWorker(work, self.recorded) as worker:
                self._judge_all(OneWorker(worker))

    def _judge_all(self, workers: OneWorker | WorkerPool) -> None:
        self.began = time.monotonic()
        boots: dict[int, int] = {}
        for worker, batch, answers in workers.answers(self._batches()):
            boots[worker] = answers.boots
            for state, judged in zip(batch, answers.judged, strict=True):
                self.checked += 1
                self.pruned += judged.pruned
                self.rerun += judged.rerun
                self.collected.add(state.policy, judged.findings, partial(_same, state))
            self._tell("exploring")
        self.boots = sum(boots.values())

    def _batches(self) -> Iterator[Sequence[CrashState]]:
        assert isinstance(self.exploration, Exploration)
        states = iter(self.exploration)
        end = None
        if self.wanted.budget.seconds is not None:
            end = self.began + self.wanted.budget.seconds
        while batch := list(islice(states, _BATCH)):
            yield batch
            if end is not None and time.monotonic() >= end:
                return

    def _tell(self, doing: str, *, force: bool = False) -> None:
        now = time.monotonic()
        if not force and now - self._told < _EVENT_S:
            return
        self._told = now
        self.on_event(
            ExploreProgress(
                self.checked,
                self.collected.lossy_states,
                now - self.began,
                self.wanted.budget,
                doing,
            )
        )

    def _compare_with_exposure(self) -> None:
        """Rule 3."""
        exposed = {
            lsn
            for span in exposure(self.recorded.evidence).exposed_lsns
            for lsn in range(span.first, span.last + 1)
        }
        lost = self.collected.lost
        all_acks = (
            "durable-only" in self.exploration.swept
            and InstantKind.ACK in self.wanted.at
            and self.wanted.model is Model.EXACT
        )
        missed = exposed - lost if all_acks else set()
        beyond = lost - exposed if self.engine == "raw" else set()
        for lsns, what in (
            (missed, "exposed, but came back in every state that was checked"),
            (beyond, "lost in some state, but not exposed"),
        ):
            if lsns:
                spans = lsn_ranges(lsns)
                message = f"exploration and exposure analysis disagree: {what}"
                self.collected.add_general(
                    Finding(
                        FindingKind.DISAGREEMENT,
                        Verdict.INCONCLUSIVE,
                        f"{message}: {ranges_text(spans)} (a bug in powercut)",
                        spans,
                    )
                )

    def _confirm(self, state: CrashState) -> tuple[Confirmed, str]:
        """What the recorded kernel makes of `state`."""
        try:
            engine: Any = open_engine(self.recorded, "guest")
            with engine:
                engine.start(timeout_s=60.0)
                writes = StateImages(self.recorded.space).writes(state)
                observation = engine.recover(writes, timeout_s=120.0)
        except HostError as error:
            return "not tried", str(error)
        findings = judge_state(self.recorded, state, observation)
        said = "; ".join(finding.message for finding in findings) or "nothing is missing"
        lossy = any(finding.verdict is Verdict.LOSSY for finding in findings)
        return ("yes" if lossy else "no"), said

    def _result(self, seconds: float) -> ExploreResult:
        recorded, wanted = self.recorded, self.wanted
        coverage = self.exploration.coverage()
        record = recorded.record
        confirm = self._confirm if wanted.confirm and self.engine == "uml" else None
        findings = self.collected.findings(
            lambda state: state_ref.save(recorded.trial, state), confirm
        )
        return ExploreResult(
            powercut=__version__,
            scenario=record.scenario,
            cell=record.cell,
            trial=record.trial.number,
            engine=self.engine,
            model=wanted.model.value,
            policies=wanted.policies,
            at=tuple(kind.value for kind in wanted.at),
            budget=str(wanted.budget),
            prune=wanted.prune.value,
            seed=wanted.seed,
            jobs=1 if self.engine == "raw" else wanted.jobs,
            seconds=round(seconds, 3),
            engine_boots=self.boots,
            coverage=ExploreCoverage(
                instants=coverage.instants,
                instants_all=coverage.instants_all,
                legal_log2=round(coverage.legal_log2, 2),
                distinct=self.checked,
                recovered=self.checked - self.pruned + self.rerun,
                pruned=self.pruned,
                pruned_rerun=self.rerun,
                repeated=coverage.duplicates,
                by_policy=coverage.by_policy,
                compared=self.compared,
                exhausted=coverage.exhausted,
                not_looked_at=self._not_looked_at(),
            ),
            findings=findings,
            verdict=self.collected.verdict,
        )

    def _not_looked_at(self) -> str:
        coverage = self.exploration.coverage()
        left = []
        if coverage.instants < coverage.instants_all:
            left.append(
                f"{coverage.instants_all - coverage.instants} of {coverage.instants_all} instants"
            )
        if 2.0 ** min(coverage.legal_log2, 1000) > coverage.distinct + coverage.duplicates + 0.5:
            left.append(f"all but {coverage.distinct} of 2^{coverage.legal_log2:.1f} legal states")
        if not coverage.exhausted:
            left.append("some states of the policies that end")
        return "; ".join(left) or "nothing"


def _same(state: CrashState) -> CrashState:
    return state
