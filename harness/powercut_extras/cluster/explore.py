# SPDX-License-Identifier: Apache-2.0
"""The crash states of one recording, judged by the workers of a cluster.

This host draws the states and hands them out in batches; what comes of a batch does not depend on
who judges it, so the result is that of one host.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Final

from powercut.crash.states import CrashState
from powercut.explore.explorer import explore
from powercut.explore.request import ExploreRequest, Listener
from powercut.explore.work import Answered, Answers, Batch, Deepen, Work
from powercut.model.events import RunEvent
from powercut.recording.sealed import SealedTrial
from powercut.rig.engine_choice import choose_engine
from powercut.rig.scratch import scratch
from powercut.store.exploration import ExploreResult
from powercut.store.files import link_or_copy
from powercut.store.trial_dir import TrialDir
from powercut_extras.cluster.identity import identity_for_states
from powercut_extras.cluster.worker import (
    Files,
    StudyOf,
    digest_of_manifest,
    files_of,
    judge_states,
)
from powercut_extras.cluster.workers import Cluster

BATCH: Final = 64
"""States of one task."""


def explore_on(
    cluster: Cluster,
    trial: TrialDir,
    wanted: ExploreRequest,
    *,
    on_event: Callable[[RunEvent], None],
    on_progress: Listener = lambda _: None,
) -> ExploreResult:
    """Explores the recording in `trial` on a cluster.

    Raises what powercut.explore.explorer.explore raises, and HostError where no worker is left.
    """
    parameters = trial.read_record().parameters
    choice = choose_engine(
        parameters, wanted.engine, after=wanted.after, depth=wanted.depth, kernel=wanted.kernel
    )
    need = StudyOf(parameters, choice.name, wanted.kernel)
    cluster.open(need, identity_for_states(choice), on_event, "explore here, without --cluster")

    def spread(work: Work) -> ClusterWorkers:
        return ClusterWorkers(cluster, trial, work)

    return explore(SealedTrial(trial), wanted, on_event=on_progress, spread=spread)


class ClusterWorkers:
    """Workers of a cluster, used like those of this host (`Workers`)."""

    def __init__(self, cluster: Cluster, trial: TrialDir, work: Work) -> None:
        self._cluster = cluster
        self._trial = trial
        self._work = work
        self._digest = digest_of_manifest(trial)
        self._numbers: dict[str, int] = {}

    def answers(self, batches: Iterator[Batch]) -> Iterator[Answered]:
        """Each batch, joined with its neighbours, with its answers, in their order."""
        most = 2 * self._cluster.threads
        ahead: deque[tuple[Batch, Future[tuple[str, Answers]]]] = deque()
        with ThreadPoolExecutor(most) as pool:
            try:
                for batch in _joined(batches):
                    ahead.append((batch, pool.submit(self._judge, batch)))
                    if len(ahead) > most:
                        yield self._next(ahead)
                while ahead:
                    yield self._next(ahead)
            finally:
                pool.shutdown(cancel_futures=True)

    def _next(self, ahead: deque[tuple[Batch, Future[tuple[str, Answers]]]]) -> Answered:
        batch, judged = ahead.popleft()
        worker, answers = judged.result()
        return self._numbers.setdefault(worker, len(self._numbers)), batch, answers

    def _judge(self, batch: Batch) -> tuple[str, Answers]:
        order = (self._work, batch, self._digest)
        judged = self._cluster.call(judge_states, *order)
        if judged is None:
            judged = self._cluster.call(judge_states, *order, self._files)
        assert judged is not None
        return judged

    @cached_property
    def _files(self) -> Files:
        """The recording, packed, for workers that do not have it."""
        with scratch() as folder:
            copy = TrialDir(folder, folder)
            for path in filter(Path.is_file, self._trial.path.iterdir()):
                link_or_copy(path, copy.path / path.name)
            copy.pack()
            return self._cluster.spread(files_of(copy))


def _joined(batches: Iterator[Batch]) -> Iterator[Batch]:
    """States in batches of one size: how many this host would judge at a time changes."""
    kept: list[CrashState] = []
    for batch in batches:
        if isinstance(batch, Deepen):
            if kept:
                yield tuple(kept)
                kept = []
            yield batch
            continue
        kept.extend(batch)
        while len(kept) >= BATCH:
            yield tuple(kept[:BATCH])
            kept = kept[BATCH:]
    if kept:
        yield tuple(kept)
