# SPDX-License-Identifier: Apache-2.0
"""Recorded disks as the explorer sees them: states are images, which an engine recovers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from powercut.crash.explore import I64, InstantKind, events
from powercut.crash.states import CrashState
from powercut.explore.after import what_can_go_on
from powercut.explore.clock import confirmation_s
from powercut.explore.confirmation import last_word
from powercut.explore.exposure_agreement import contradictions
from powercut.explore.findings import FindingCollector
from powercut.explore.medium import RecordedCell
from powercut.explore.place_names import names_of
from powercut.explore.pool import OneWorker, WorkerPool
from powercut.explore.raw import RawExploration, RawOptions
from powercut.explore.request import ExploreRequest
from powercut.explore.state_map import StateMapper
from powercut.explore.work import Spread, Work, Workers
from powercut.explore.worker import LocalWorker
from powercut.model.machine import ImageFormat
from powercut.model.verdict import Finding
from powercut.recording import state_ref
from powercut.recording.trial_recording import TrialRecording
from powercut.rig.engine_choice import choose_engine
from powercut.rig.engine_shelf import EngineShelf
from powercut.rig.engines import reader_alone, records_recoveries
from powercut.store.packed import has_evidence
from powercut.workload.port import AcksByLines
from powercut.workload.table import is_recognised, workload_of


class DiskMedium:
    """One recorded disk, and the engine that recovers what cuts leave of it.

    A single job takes its engine from the `shelf`, if there is one.  With a `spread` the
    workers of a cluster judge the states.
    """

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
        self.engine = choose_engine(
            recorded.parameters,
            wanted.engine,
            after=wanted.after,
            depth=wanted.depth,
            kernel=wanted.kernel,
        )
        record, raw = recorded.record, recorded.image_format is ImageFormat.RAW
        self.recorded_cell = RecordedCell(record.scenario, record.cell, record.trial.number)
        self.space = recorded.space
        self.gaps: Sequence[str] = recorded.gaps
        self.at_cut: Sequence[CrashState] = ()
        self.names = names_of(recorded)
        self.last_word = last_word(
            recorded, self.engine, after=wanted.after, kernels=wanted.confirm
        )
        self.confirmation_s = confirmation_s(record.timings_s)
        # The repair of an image format comes before the boot, and is in no record.
        self.records_recoveries = raw and records_recoveries(self.engine.name)
        self.recoveries_first: Sequence[CrashState | None] = ()
        log = recorded.directory.recovery_log.with_suffix(".log")
        # A program's disk was recovered as a copy, which is in no log.
        by_lines = isinstance(workload_of(recorded.parameters), AcksByLines)
        if wanted.depth and not by_lines and has_evidence(log):
            self.recoveries_first = (None,)

    def instants(self, kinds: Sequence[InstantKind]) -> I64:
        """All after events of these kinds."""
        return events(self.space, kinds)

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
        """Those of this host, or of a cluster."""
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
        """Where exposure analysis disagrees."""
        raw = reader_alone(self.engine.name)
        return contradictions(self._recorded, lost, saw_all_acks=saw_all_acks, raw=raw)
