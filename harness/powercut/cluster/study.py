# SPDX-License-Identifier: Apache-2.0
"""Judges crash states of one recording for an exploration made elsewhere.

What comes of a batch follows from the recording, the settings and the batch alone: no answer of an
earlier batch decides a state (`Work.by_batch`).
"""

from __future__ import annotations

import hashlib
import queue
import time
from contextlib import ExitStack
from pathlib import Path

from powercut.closing import ResourceOwner
from powercut.cluster.hold import Hold
from powercut.cluster.identity import study_identity
from powercut.cluster.messages import Hello, Judged, JudgedState, StateOrder, Study
from powercut.explore.pool import OneWorker, WorkerPool
from powercut.explore.work import StateJudgement, Work, Workers
from powercut.explore.worker import LocalWorker
from powercut.model.errors import DamagedRecording
from powercut.recording import state_ref
from powercut.rig.engine_choice import choose_engine
from powercut.store.manifest import MANIFEST
from powercut.store.trial_dir import TrialDir
from powercut.store.trial_result import FindingRecord


def name_of(trial: TrialDir) -> str:
    """What a recording is called where it is brought: the digest of its manifest."""
    return hashlib.sha256((trial.path / MANIFEST).read_bytes()).hexdigest()


class StudyHere(ResourceOwner):
    """Workers of this host that judge batches; a context manager."""

    def __init__(self, root: Path, study: Study, jobs: int, hold: Hold) -> None:
        """Raises DamagedRecording if the recording is not what its name says."""
        super().__init__()
        folder = root / study.recording
        self._trial = TrialDir(folder, folder)
        if name_of(self._trial) != folder.name:
            raise DamagedRecording(f"{study.recording}: its manifest is another")
        self._trial.check_seal()
        parameters = self._trial.read_record().parameters
        self._choice = choose_engine(parameters, study.engine, kernel=study.kernel)
        self._study = study
        self._jobs = jobs
        self._hold = hold
        self._free: queue.SimpleQueue[Workers] = queue.SimpleQueue()

    @property
    def hello(self) -> Hello:
        """What this host is, as far as it matters here."""
        return study_identity(self._choice, self._hold.digests)

    def _open(self, stack: ExitStack) -> None:
        study = self._study
        work = Work(
            self._trial.path,
            self._trial.run,
            self._choice.name,
            study.prune,
            study.seed,
            policies=study.policies,
            model=study.model,
            kernel=self._choice.kernel,
            by_batch=True,
        )
        for _ in range(self._jobs):
            if self._jobs > 1:
                self._free.put(stack.enter_context(WorkerPool(work, 1)))
            else:
                self._free.put(OneWorker(stack.enter_context(LocalWorker(work))))

    def judge(self, order: StateOrder) -> Judged:
        """Judges a batch, when a worker is free.  Raises HostError, DamagedRecording."""
        states = tuple(map(state_ref.parse, order.states))
        workers = self._free.get()
        begun = time.monotonic()
        try:
            self._hold.check()
            ((_, _, answers),) = workers.answers(iter([states]))
            self._hold.check()
        finally:
            self._free.put(workers)
        return Judged(
            states=tuple(map(_said, answers.judged)),
            boots=answers.boots,
            seconds=round(time.monotonic() - begun, 3),
        )


def _said(judged: StateJudgement) -> JudgedState:
    return JudgedState(
        findings=tuple(map(FindingRecord.of, judged.findings)),
        pruned=judged.pruned,
        rerun=judged.rerun,
        same_files=judged.same_files,
        disk=judged.disk.hex(),
    )
