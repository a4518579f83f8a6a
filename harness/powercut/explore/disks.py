# SPDX-License-Identifier: Apache-2.0
"""Recorded disks as the explorer sees them: states are images, which an engine recovers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from powercut.crash.explore import I64, InstantKind, events
from powercut.crash.kinds import Names
from powercut.crash.states import CrashState, StateSpace
from powercut.explore.after import what_can_go_on
from powercut.explore.clock import confirmation_s
from powercut.explore.confirmation import Confirmation, confirmation
from powercut.explore.exposure_agreement import contradictions
from powercut.explore.findings import FindingCollector
from powercut.explore.medium import RecordedCell
from powercut.explore.place_names import names_of
from powercut.explore.pool import OneWorker, WorkerPool
from powercut.explore.raw import RawExploration, RawOptions
from powercut.explore.request import ExploreRequest
from powercut.explore.work import Spread, Work, Workers
from powercut.explore.worker import LocalWorker
from powercut.model.machine import ImageFormat
from powercut.model.verdict import Finding
from powercut.recording import state_ref
from powercut.recording.trial_recording import TrialRecording
from powercut.rig.engine_choice import EngineChoice, choose_engine
from powercut.rig.engine_shelf import EngineShelf
from powercut.rig.engines import reader_alone, records_recoveries
from powercut.store.packed import has_evidence
from powercut.workload.port import AcksByLines
from powercut.workload.table import is_recognised, workload_of


class DiskMedium:
    """One recorded disk, and the engine that recovers what cuts leave of it.

    A single job takes its engine from the `shelf`, if there is one.  With a `spread` other hosts
    judge the states, and this one judges some of them again.
    """

    at_cut: Sequence[CrashState] = ()

    def __init__(
        self,
        recorded: TrialRecording,
        wanted: ExploreRequest,
        *,
        shelf: EngineShelf | None = None,
        spread: Spread | None = None,
    ) -> None:
        """Raises UsageError for an engine that cannot do this recording, HostError."""
        self._recorded = recorded
        self._shelf = shelf
        self._spread = spread
        self.engine: EngineChoice = choose_engine(
            recorded.parameters,
            wanted.engine,
            after=wanted.after,
            depth=wanted.depth,
            kernel=wanted.kernel,
        )
        self.last_word: Confirmation | None = confirmation(
            recorded, self.engine, after=wanted.after
        )
        self._depth = wanted.depth

    @property
    def recorded_cell(self) -> RecordedCell:
        """Which recording it is."""
        record = self._recorded.record
        return RecordedCell(record.scenario, record.cell, record.trial.number)

    @property
    def space(self) -> StateSpace:
        """Its states."""
        return self._recorded.space

    @property
    def gaps(self) -> Sequence[str]:
        """What is missing of the recording."""
        return self._recorded.gaps

    @property
    def names(self) -> Names | None:
        """By what the file system has where a write goes."""
        return names_of(self._recorded)

    @property
    def confirmation_s(self) -> float:
        """By what the recorded guest took."""
        return confirmation_s(self._recorded.record.timings_s)

    def instants(self, kinds: Sequence[InstantKind]) -> I64:
        """All after events of these kinds."""
        return events(self.space, kinds)

    def bulk(
        self, wanted: ExploreRequest, collected: FindingCollector, scratch: Path
    ) -> RawExploration | None:
        """Whoever reads states by the slots of a log; None where an engine recovers them."""
        alone = reader_alone(self.engine.name) and is_recognised(self._recorded.parameters)
        if not alone or self._spread is not None:
            return None
        limit = wanted.budget.states
        options = RawOptions(
            wanted.model,
            wanted.policies,
            wanted.at,
            wanted.seed,
            wanted.per_policy,
            None if limit is None else limit + len(wanted.named),
            scratch,
        )
        return RawExploration(self._recorded, options, collected)

    def possible(self, wanted: ExploreRequest) -> tuple[ExploreRequest, Sequence[Finding]]:
        """Without life after recovery where a program cannot live on.  Raises HostError."""
        return what_can_go_on(self._recorded, self.engine.kernel, wanted)

    @contextmanager
    def workers(self, wanted: ExploreRequest) -> Iterator[Workers]:
        """Those of this host, and of others that the states are spread over."""
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
        )
        with ExitStack() as stack:
            workers: Workers
            if wanted.jobs > 1:
                workers = stack.enter_context(WorkerPool(work, wanted.jobs))
            else:
                one = stack.enter_context(LocalWorker(work, self._recorded, self._shelf))
                workers = OneWorker(one)
            yield workers if self._spread is None else self._spread.over(work, workers)

    @property
    def recoveries_first(self) -> Sequence[CrashState | None]:
        """The live recovery, if it is on record and is to be cut."""
        log = self._recorded.directory.recovery_log.with_suffix(".log")
        # A program's disk was recovered as a copy, which is in no log.
        by_lines = isinstance(workload_of(self._recorded.parameters), AcksByLines)
        return [None] if self._depth and not by_lines and has_evidence(log) else []

    @property
    def records_recoveries(self) -> bool:
        """Whether the engine does, of this recording: the repair of an image format comes before
        the boot."""
        raw = self._recorded.image_format is ImageFormat.RAW
        return raw and records_recoveries(self.engine.name)

    def name(self, state: CrashState, *, keep: bool) -> str:
        """The name of a state, which is kept if it is to."""
        if keep:
            return state_ref.save(self._recorded.directory, state)
        return state_ref.state_id(state)

    def contradictions(self, lost: set[int], *, saw_all_acks: bool) -> Iterable[Finding]:
        """Where exposure analysis disagrees."""
        raw = reader_alone(self.engine.name)
        return contradictions(self._recorded, lost, saw_all_acks=saw_all_acks, raw=raw)
