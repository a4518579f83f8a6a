# SPDX-License-Identifier: Apache-2.0
"""Recovers and judges crash states, in this process or in others.

A worker has one engine.  The process that explores draws the states and hands them out
in batches of neighbours, so that what is found does not depend on how many workers
there are.  A worker process ends when its end of the pipe closes, and with it its
engine: nothing is left even if the explorer is killed.
"""

from __future__ import annotations

import enum
import multiprocessing
import multiprocessing.connection
import random
import signal
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from powercut.checkers.wal import check_log
from powercut.crash.states import CrashState
from powercut.model.errors import HostError
from powercut.model.observation import Observation
from powercut.model.verdict import Finding, FindingKind, Verdict
from powercut.recover.port import RecoveryEngine
from powercut.recover.uml import UmlEngine
from powercut.run import commands
from powercut.run.explore_engines import Decided, StateImages
from powercut.run.guest_engine import GuestEngine
from powercut.run.recorded import Recorded, open_recorded
from powercut.store.layout import TrialDir

START_S: Final = 180.0
STATE_S: Final = 60.0
RERUN_ONE_IN: Final = 100
"""Of the states decided by pruning one in so many is recovered all the same."""

_END_S: Final = 10.0
_BATCH_S: Final = 3600.0  # a batch of states that all hang, twice


class Prune(enum.Enum):
    """Which states are decided by an earlier one instead of by an engine."""

    BYTES = "bytes"  # those with the same bytes on the whole disk
    READS = "reads"  # also those with the same bytes wherever the earlier recovery read
    NOTHING = "nothing"


@dataclass(frozen=True)
class Work:
    """What a worker needs to know; small enough to be sent to another process."""

    trial: Path
    run: Path
    engine: str
    prune: Prune
    seed: int


@dataclass(frozen=True)
class Judged:
    """What came of one state.  `pruned`: an equal state had decided it."""

    findings: tuple[Finding, ...]
    pruned: bool = False
    rerun: bool = False


@dataclass(frozen=True)
class Answers:
    """What came of one batch; `boots` counts the engine's kernels since its beginning."""

    judged: tuple[Judged, ...]
    boots: int


Answered = tuple[int, Sequence[CrashState], Answers]
"""Number of the worker, batch, answers."""

Pipe = multiprocessing.connection.Connection


def judge_state(
    recorded: Recorded, state: CrashState, observation: Observation
) -> tuple[Finding, ...]:
    """The findings on what was recovered of `state`, against what was claimed at its instant."""
    claims = recorded.evidence.claims
    required = claims.required(state.instant)
    attempted = claims.attempted_before(state.instant)
    return tuple(check_log(required, attempted, observation, recorded.layout))


def open_engine(recorded: Recorded, name: str, prune: Prune = Prune.NOTHING) -> RecoveryEngine:
    """The engine called `name`, not started.  Raises HostError if this host has none."""
    plan = commands.recovery_plan(recorded.parameters, recorded.run_id)
    if name == "guest":
        return GuestEngine(recorded.trial.base_image, recorded.parameters, plan)
    return UmlEngine(recorded.trial.base_image, plan, track_reads=prune is Prune.READS)


class LocalWorker:
    """A worker in this process."""

    def __init__(self, work: Work, recorded: Recorded | None = None) -> None:
        self._work = work
        self._recorded = recorded or open_recorded(TrialDir(work.trial, work.run))
        self._images = StateImages(self._recorded.space)
        base = self._recorded.trial.base_image
        self._decided = Decided(base) if work.prune is not Prune.NOTHING else None
        self._rerun = random.Random(f"{work.seed}/rerun")
        self._engine = open_engine(self._recorded, work.engine, work.prune)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        manager: Any = self._engine
        self._stack.enter_context(manager)
        try:
            self._engine.start(timeout_s=START_S)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def judge(self, states: Sequence[CrashState]) -> Answers:
        """Recovers and judges `states`, one after the other."""
        judged = tuple(self._judge(state) for state in states)
        return Answers(judged, int(getattr(self._engine, "boots", 1)))

    def _judge(self, state: CrashState) -> Judged:
        writes = self._images.writes(state)
        expected = None
        if self._decided is not None:
            self._decided.advance(writes)
            expected = self._decided.find()
            if expected is not None and self._rerun.randrange(RERUN_ONE_IN):
                return Judged(judge_state(self._recorded, state, expected), pruned=True)
        try:
            observation = self._engine.recover(writes, timeout_s=STATE_S)
        except HostError as error:
            return Judged((_engine_failed(error),))
        findings = judge_state(self._recorded, state, observation)
        if self._decided is None:
            return Judged(findings)
        if expected is not None:
            if not _same(expected, observation):
                findings = (*findings, _pruned_wrongly())
            return Judged(findings, pruned=True, rerun=True)
        self._decided.learn(getattr(self._engine, "reads", None), observation)
        return Judged(findings)


def _same(one: Observation, other: Observation) -> bool:
    """Whether two observations differ in nothing but the words of a kernel."""
    return replace(one, failure="") == replace(other, failure="")


def _engine_failed(error: HostError) -> Finding:
    return Finding(
        FindingKind.INCOMPLETE,
        Verdict.INCONCLUSIVE,
        f"the engine failed, and nothing is known of this state: {error}",
    )


def _pruned_wrongly() -> Finding:
    return Finding(
        FindingKind.DISAGREEMENT,
        Verdict.INCONCLUSIVE,
        "a state recovers otherwise than one that agrees with it on all that was read: "
        "a bug in powercut, or a recovery that is not repeatable",
    )


class OneWorker:
    """A worker in this process, to be used like several of their own."""

    def __init__(self, worker: LocalWorker) -> None:
        self._worker = worker

    def answers(self, batches: Iterator[Sequence[CrashState]]) -> Iterator[Answered]:
        """As `WorkerPool.answers`."""
        for batch in batches:
            yield 0, batch, self._worker.judge(batch)


class WorkerPool:
    """Worker processes.  A context manager: leaving it ends them."""

    def __init__(self, work: Work, jobs: int) -> None:
        self._work = work
        self._jobs = jobs
        self._context = multiprocessing.get_context("spawn")
        self._stack = ExitStack()
        self._pipes: list[Pipe] = []

    def __enter__(self) -> Self:
        try:
            for number in range(self._jobs):
                work = replace(self._work, seed=self._work.seed + number)
                ours, theirs = self._context.Pipe()
                process = self._context.Process(target=_serve, args=(work, theirs), daemon=True)
                process.start()
                theirs.close()
                self._stack.enter_context(_Ending(process, ours))
                self._pipes.append(ours)
            for pipe in self._pipes:
                _receive(pipe)  # it has started, or says why not
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def answers(self, batches: Iterator[Sequence[CrashState]]) -> Iterator[Answered]:
        """Each batch with its answers and the number of its worker, in the order of batches.

        Takes a batch whenever a worker is free.  Raises HostError if a worker dies.
        """
        numbered = enumerate(batches)
        busy: dict[Pipe, tuple[int, Sequence[CrashState]]] = {}
        done: dict[int, Answered] = {}

        def hand_out(pipe: Pipe) -> None:
            number, batch = next(numbered, (0, None))
            if batch is not None:
                pipe.send(batch)
                busy[pipe] = (number, batch)

        for pipe in self._pipes:
            hand_out(pipe)
        following = 0
        while busy:
            ready = multiprocessing.connection.wait(list(busy), timeout=_BATCH_S)
            if not ready:
                raise HostError(f"no worker of the exploration answered in {_BATCH_S:g} s")
            for pipe in [pipe for pipe in busy if pipe in ready]:
                number, batch = busy.pop(pipe)
                done[number] = (self._pipes.index(pipe), batch, _receive(pipe))
                hand_out(pipe)
            while following in done:  # what is found first must not depend on who was faster
                yield done.pop(following)
                following += 1


class _Ending(AbstractContextManager[None]):
    """Ends a worker: in order, and if it does not listen, at once."""

    def __init__(self, process: Any, pipe: Pipe) -> None:
        self._process = process
        self._pipe = pipe

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self._pipe.close()
        self._process.join(_END_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(_END_S)
        self._process.close()


def _receive(pipe: Pipe) -> Any:
    try:
        answer = pipe.recv()
    except (EOFError, OSError) as error:
        raise HostError("a worker of the exploration died", hint="try --jobs 1") from error
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _serve(work: Work, pipe: Pipe) -> None:
    """A worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C is for the explorer, which ends us
    try:
        with LocalWorker(work) as worker:
            pipe.send("ready")
            while True:
                pipe.send(worker.judge(pipe.recv()))
    except (EOFError, BrokenPipeError):
        return
    except BaseException as error:
        pipe.send(error)
