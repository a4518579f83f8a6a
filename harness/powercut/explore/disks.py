# SPDX-License-Identifier: Apache-2.0
"""Recorded disks as the explorer sees them: states are images, which an engine recovers."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from powercut.checkers.agreement import bytes_not_judged
from powercut.closing import ResourceOwner
from powercut.crash.arrays import I64
from powercut.crash.explore import InstantKind
from powercut.crash.exposure import exposure
from powercut.crash.kinds import Names
from powercut.crash.states import CrashState
from powercut.explore.clock import confirmation_s
from powercut.explore.confirmation import LastWord, last_word
from powercut.explore.findings import FindingCollector
from powercut.explore.medium import RecordedCell
from powercut.explore.raw import RawExploration, RawOptions
from powercut.explore.request import ExploreRequest
from powercut.explore.state_map import StateMapper
from powercut.explore.work import Answered, Batch, Spread, Work, Workers
from powercut.explore.worker import LocalWorker
from powercut.model.errors import HostError
from powercut.model.machine import ImageFormat
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict, lsn_ranges
from powercut.recording import state_ref
from powercut.recording.disk import DiskRecording
from powercut.recording.disk_files import places_on
from powercut.recording.disk_places import UNKNOWN
from powercut.recording.sealed import TrialRecording
from powercut.recover.order import EngineOrder
from powercut.recover.uml.kernel import UmlKernel
from powercut.rig.engine_choice import EngineChoice, choose_engine
from powercut.rig.engine_shelf import EngineShelf
from powercut.rig.engines import open_engine, reader_alone, records_recoveries, start_engine
from powercut.rig.recovery import going_on
from powercut.store.packed import has_evidence
from powercut.store.trial_dir import TrialDir
from powercut.workload.port import AcksByLines, Recognised
from powercut.workload.table import is_recognised, workload_of


class DiskMedium:
    """One recorded disk, and the engine that recovers what cuts leave of it.

    A single job takes its engine from the `shelf`, if there is one.  With a `spread` the
    workers of a cluster judge the states.
    """

    opens: Callable[[TrialDir], DiskRecording] | None = None  # in another process; None: a trial

    def __init__(
        self,
        recorded: DiskRecording,
        wanted: ExploreRequest,
        engine: EngineChoice | None = None,
        *,
        shelf: EngineShelf | None = None,
        spread: Spread | None = None,
    ) -> None:
        """Raises UsageError for an engine that cannot do this recording, HostError."""
        self._recorded = recorded
        self._shelf = shelf
        self._spread = spread
        self.engine = engine or choose_engine(
            recorded.parameters,
            wanted.engine,
            after=wanted.after,
            depth=wanted.depth,
            kernel=wanted.kernel,
        )
        self.recorded_cell = RecordedCell("import", recorded.title, 1)
        self.space = recorded.space
        self.gaps: Sequence[str] = recorded.gaps
        self.at_cut: Sequence[CrashState] = recorded.at_cut
        self.names = names_of(recorded)
        self.last_word: LastWord | None = None
        self.confirmation_s = 0.0
        self.records_recoveries = False
        self.recoveries_first: Sequence[CrashState | None] = ()
        if isinstance(recorded, TrialRecording):
            self._take_trial(recorded, wanted)

    def _take_trial(self, recorded: TrialRecording, wanted: ExploreRequest) -> None:
        record, raw = recorded.record, recorded.image_format is ImageFormat.RAW
        self.recorded_cell = RecordedCell(record.scenario, record.cell, record.trial.number)
        self.last_word = last_word(
            recorded, self.engine, after=wanted.after, kernels=wanted.confirm
        )
        self.confirmation_s = confirmation_s(record.timings_s)
        # The repair of an image format comes before the boot, and is in no record.
        self.records_recoveries = raw and records_recoveries(self.engine.name)
        log = recorded.directory.recovery_log.with_suffix(".log")
        # A program's disk was recovered as a copy, which is in no log.
        by_lines = isinstance(workload_of(recorded.parameters), AcksByLines)
        if wanted.depth and not by_lines and has_evidence(log):
            self.recoveries_first = (None,)

    def instants(self, kinds: Sequence[InstantKind]) -> I64:
        return self._recorded.instants(kinds)

    def bulk(
        self,
        wanted: ExploreRequest,
        collected: FindingCollector,
        mapper: StateMapper,
        scratch: Path,
    ) -> RawExploration | None:
        """Whoever reads states by the slots of a log; None where an engine recovers them."""
        alone = reader_alone(self.engine.name) and is_recognised(self._recorded.parameters)
        if not alone or self._spread is not None:
            return None
        options = RawOptions(
            wanted.model,
            wanted.policies,
            wanted.at,
            wanted.seed,
            wanted.per_policy,
            wanted.budget.states,
            scratch,
            wanted.named,
        )
        return RawExploration(self._recorded, options, collected, mapper)

    def possible(self, wanted: ExploreRequest) -> tuple[ExploreRequest, Sequence[Finding]]:
        """Without life after recovery where a program cannot live on.  Raises HostError."""
        return what_can_go_on(self._recorded, self.engine.kernel, wanted)

    @contextmanager
    def workers(self, wanted: ExploreRequest) -> Iterator[Workers]:
        directory = self._recorded.directory
        work = Work(
            directory.path,
            directory.run,
            self.engine.name,
            wanted.prune,
            wanted.seed,
            wanted.after,
            wanted.depth,
            wanted.policies,
            wanted.model,
            self.engine.kernel,
            self._spread is not None,
            self.opens,
        )
        if self._spread is not None:
            yield self._spread(work)
        elif wanted.jobs > 1:
            with WorkerPool(work, wanted.jobs) as pool:
                yield pool
        else:
            with LocalWorker(work, self._recorded, self._shelf) as one:
                yield OneWorker(one)

    def name(self, state: CrashState, *, keep: bool) -> str:
        """The name of a state, which is kept if it is to."""
        if keep:
            return state_ref.save(self._recorded.directory, state)
        return state_ref.state_id(state)

    def contradictions(self, lost: set[int], *, saw_all_acks: bool) -> Iterable[Finding]:
        raw = reader_alone(self.engine.name)
        return contradictions(self._recorded, lost, saw_all_acks=saw_all_acks, raw=raw)


# What the file system of a recording calls the place of a write, to tell kinds of writes.

_HEAD: Final = 512


def names_of(recording: DiskRecording) -> Names | None:
    """By the first sector of a write; None if the disk is not laid out by a known file system.

    Names are made when they are asked for.
    """
    if recording.image_format is not ImageFormat.RAW or not recording.filesystem:
        return None
    places = cache(lambda: places_on(recording.base, recording.timeline.disks, recording.layers))
    timeline = recording.timeline

    def name(write: int) -> str:
        head = b""
        if timeline.requests.data_offset[write] >= 0:
            head = timeline.payload(write)[:_HEAD].tobytes()
        parts = places().parts(int(timeline.requests.offset[write]), head)
        what = parts[0].what if parts else UNKNOWN
        return "" if what == UNKNOWN else what

    return name


# Two ways to the same answer: what crash states lost, and what exposure analysis says.
#
# What exposure analysis calls exposed must be lost in some state, if every ack was looked at with
# nothing but the durable writes; and in a raw log nothing else may be lost.  Otherwise the two
# disagree, and that is a bug in powercut.  But where no write shows a record's bytes, the scan does
# not recognise them, and they are not judged.


def contradictions(
    recorded: DiskRecording, lost: Set[int], *, saw_all_acks: bool, raw: bool
) -> Iterator[Finding]:
    """Where the records `lost` in some crash state are not those that were exposed.

    `saw_all_acks` says that every ack was looked at with nothing but the durable writes, `raw`
    that the log lies on the bare disk.  Nothing of workloads whose bytes are not recognised.
    """
    if not isinstance(recorded.promises, Recognised):
        return
    report = exposure(recorded.evidence)
    exposed = {lsn for span in report.exposed_lsns for lsn in span}
    unseen = {lsn for span in report.never_written_lsns for lsn in span}
    missed = exposed - lost if saw_all_acks else set()
    if missed & unseen:
        yield bytes_not_judged(lsn_ranges(missed & unseen), "came back in every state")
    if missed - unseen:
        yield _contradiction(
            "exposed, but came back in every state that was checked", missed - unseen
        )
    if raw and lost - exposed:
        yield _contradiction("lost in some state, but not exposed", lost - exposed)


def _contradiction(what: str, lsns: Set[int]) -> Finding:
    spans = lsn_ranges(lsns)
    return Finding(
        FindingKind.DISAGREEMENT,
        Verdict.INCONCLUSIVE,
        f"exploration and exposure analysis disagree: {what}: {LsnRange.text_of(spans)} "
        "(a bug in powercut)",
        spans,
    )


# Life after recovery: how the workload goes on (what must then be there: its promises say).

_START_S: Final = 180.0


def what_can_go_on(
    recording: DiskRecording, kernel: UmlKernel | None, wanted: ExploreRequest
) -> tuple[ExploreRequest, tuple[Finding, ...]]:
    """What is `wanted`, without life after recovery and second cuts if these would say nothing.

    Anybody's program must first show that it can live on where nothing was lost.  Raises HostError.
    """
    lines = isinstance(workload_of(recording.system.parameters), AcksByLines)
    if not lines or not (wanted.after or wanted.depth):
        return wanted, ()
    problem = _problem_of_going_on(recording, kernel, wanted.after)
    if not problem:
        return wanted, ()
    message = (
        "life after recovery and second cuts were not looked at: on the disk on which only `setup` "
        f"has run, where nothing is lost, {problem}"
    )
    finding = Finding.unknown(message)
    return replace(wanted, after=0, depth=0), (finding,)


def _problem_of_going_on(recording: DiskRecording, kernel: UmlKernel | None, records: int) -> str:
    """What is found where the program is checked, goes on, is killed and checked again."""
    assert recording.plan is not None
    parameters = recording.system.parameters
    plan = going_on(recording.plan, parameters, recording.run_id, records, again=True)
    if not records:
        plan = plan.going_on((), 0)
    order = EngineOrder(recording.base, plan, parameters, kernel)
    with ExitStack() as stack:
        engine = open_engine("uml" if plan.root is None else "guest", order)
        start_engine(engine, stack, timeout_s=_START_S)
        seen = engine.recover([], timeout_s=workload_of(parameters).recovery_s)
    claims = recording.promises.claims_at(0)
    return "; ".join(finding.message for finding in recording.promises.check(claims, seen))


# Hands out states to workers, in this process or in others.
#
# The process that explores draws the states and hands them out in batches of neighbours, so
# that what is found does not depend on how many workers there are.  A worker process ends when
# its end of the pipe closes, and with it its engine: nothing is left even if the explorer is
# killed.

_END_S: Final = 10.0
_HURRY_S: Final = 0.5  # for one that is busy when a signal ends the exploration
_BATCH_S: Final = 3600.0  # a batch of states that all hang, twice

Pipe = multiprocessing.connection.Connection


class OneWorker:
    """A worker in this process, to be used like several of their own."""

    def __init__(self, worker: LocalWorker) -> None:
        self._worker = worker

    def answers(self, batches: Iterator[Batch]) -> Iterator[Answered]:
        for batch in batches:
            yield 0, batch, self._worker.answer(batch)


class WorkerPool(ResourceOwner):
    """Worker processes.  A context manager: leaving it ends them."""

    def __init__(self, work: Work, jobs: int) -> None:
        super().__init__()
        self._work = work
        self._jobs = jobs
        self._context = multiprocessing.get_context("spawn")
        self._pipes: list[Pipe] = []

    def _open(self, stack: ExitStack) -> None:
        for number in range(self._jobs):
            work = replace(self._work, seed=self._work.seed + number)
            ours, theirs = self._context.Pipe()
            process = self._context.Process(target=_serve, args=(work, theirs), daemon=True)
            process.start()
            theirs.close()
            stack.enter_context(_Ending(process, ours))
            self._pipes.append(ours)
        for pipe in self._pipes:
            _receive(pipe)  # it has started, or says why not

    def answers(self, batches: Iterator[Batch]) -> Iterator[Answered]:
        """Each batch with its answers and the number of its worker, in the order of batches.

        Takes a batch whenever a worker is free.  Raises HostError if a worker dies.
        """
        numbered = enumerate(batches)
        busy: dict[Pipe, tuple[int, Batch]] = {}
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
    """Ends a worker: in order, and if it does not listen, or nobody may wait, at once."""

    def __init__(self, process: Any, pipe: Pipe) -> None:
        self._process = process
        self._pipe = pipe

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, *_: object) -> None:
        self._pipe.close()
        self._process.join(_HURRY_S if kind is KeyboardInterrupt else _END_S)
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C is for the explorer, which ends us
    try:
        with LocalWorker(work) as worker:
            pipe.send("ready")
            while True:
                pipe.send(worker.answer(pipe.recv()))
    except (EOFError, BrokenPipeError):
        return
    except BaseException as error:
        with suppress(BrokenPipeError):  # the explorer has left: another worker failed first
            pipe.send(error)
