# SPDX-License-Identifier: Apache-2.0
"""What a worker does: says what it is, makes a trial, judges crash states.

Dask calls these functions in threads of a worker's process.  A trial is recorded, judged and kept
as `powercut run` would do it; a worker that shares the folder of results writes it there, another
one returns its files, packed.  What comes of a batch of states follows from the recording, the
settings and the batch alone: no answer of an earlier batch decides a state (`Work.by_batch`).
"""

from __future__ import annotations

import errno
import hashlib
import os
import socket
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from powercut.campaign.runner import ready_rig
from powercut.explore.trial import RecoveredStates
from powercut.explore.work import Answers, Batch, Work
from powercut.explore.worker import LocalWorker
from powercut.model.errors import DamagedRecording
from powercut.paths import CACHE
from powercut.recording.sealed import SealedTrial
from powercut.rig.engine_choice import choose_engine
from powercut.rig.engine_shelf import EngineShelf
from powercut.rig.rig import Rig
from powercut.rig.scratch import scratch
from powercut.scenario.plan import Plan
from powercut.scenario.settings import Parameters
from powercut.store.files import host_errors
from powercut.store.manifest import MANIFEST
from powercut.store.trial_dir import TrialDir
from powercut.trial.job import TrialJob
from powercut.trial.record import record_trial
from powercut.verdict.judge import verdict_of
from powercut_extras.cluster.identity import Identity, identity_for_run, identity_for_states

MAKING: Final = ".cluster"
"""A folder in that of the run, while it is being made."""

Files = Mapping[str, bytes]
"""The plain files of a recording, by name."""


@dataclass(frozen=True)
class StudyOf:
    """An exploration: what recovers which recording's states."""

    parameters: Parameters
    engine: str
    kernel: str
    """As `explore --recovery-kernel` names it."""


Need = Plan | StudyOf
"""What a host is to be able to do."""


@dataclass(frozen=True)
class Shared:
    """The folder of a run, and a word by which another host knows whether it has the same one."""

    folder: Path
    word: str

    @property
    def making(self) -> Path:
        """Where trials are made before they are brought to their places."""
        return self.folder / MAKING / self.word

    @property
    def is_here(self) -> bool:
        """Whether this host has the same folder."""
        return self.making.is_dir()


class _Here:
    """What this process keeps ready between tasks."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.begin()

    def begin(self) -> None:
        self.rig: Rig | None = None
        self.shelf = EngineShelf()
        self.recordings: dict[str, TrialDir] = {}
        self.idle: dict[Work, list[LocalWorker]] = {}
        self.held = ExitStack()


_here = _Here()


def forget() -> None:
    """Ends what this process keeps ready."""
    with _here.lock:
        held, shelf = _here.held, _here.shelf
        _here.begin()
    held.close()
    shelf.close()


def identity(need: Need) -> Identity:
    """What this host is for what is to be done; it is ready for that then.  Raises HostError."""
    with _here.lock:
        if isinstance(need, StudyOf):
            return identity_for_states(
                choose_engine(need.parameters, need.engine, kernel=need.kernel)
            )
        _here.rig = ready_rig([need], lambda _: None)
        return identity_for_run(_here.rig, need)


class BegunAnew(Exception):
    """This process has not said what it is: another one had its address."""


def make_trial(job: TrialJob, place: str, shared: Shared) -> Files | None:
    """Makes and judges a trial; its files, None if they are where they belong: at `place`, below
    the folder of the run.  Raises HostError, BegunAnew.
    """
    if _here.rig is None:
        raise BegunAnew
    here = shared.is_here
    making = shared.making if here else _cache()
    with scratch(making) as folder:
        trial = TrialDir(folder / place, shared.folder if here else folder)
        with host_errors(trial.path):
            trial.path.mkdir(parents=True)
        if not here:
            job = replace(job, begins_with=None)
        record_trial(_here.rig, job, trial, lambda _: None, _here.shelf)
        if here:
            trial = _brought(trial, TrialDir(shared.folder / place, shared.folder))
        trial.write_verdict(
            verdict_of(SealedTrial(trial), RecoveredStates(_here.shelf), lambda _: None)
        )
        if here:
            return None
        trial.pack()
        return files_of(trial)


def _brought(made: TrialDir, place: TrialDir) -> TrialDir:
    """The recording at its place: this one, or one that a worker taken for lost has brought."""
    with host_errors(place.path):
        place.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            made.path.rename(place.path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
    return place


def files_of(trial: TrialDir) -> Files:
    """What is needed to judge a recording elsewhere, and what was found.  Raises HostError."""
    with host_errors(trial.path):
        return {path.name: path.read_bytes() for path in trial.path.iterdir() if path.is_file()}


def judge_states(
    work: Work, batch: Batch, digest: str, files: Files | None = None
) -> tuple[str, Answers] | None:
    """Judges a batch of states of the recording whose manifest has that digest; which worker did.

    `files` are the recording, where it does not lie on this host at `work.trial`; None where they
    are wanted.  Raises HostError, DamagedRecording.
    """
    with _here.lock:
        trial = _recording(TrialDir(work.trial, work.run), digest, files)
        if trial is None:
            return None
        work = replace(work, trial=trial.path, run=trial.run)
        idle = _here.idle.setdefault(work, [])
        one = idle.pop() if idle else _here.held.enter_context(LocalWorker(work))
    try:
        return f"{socket.gethostname()} {os.getpid()} {id(one)}", one.answer(batch)
    finally:
        with _here.lock:
            idle.append(one)


def _recording(named: TrialDir, digest: str, files: Files | None) -> TrialDir | None:
    """The recording, where it lies here; its seal is checked once."""
    if digest not in _here.recordings:
        trial = named
        if digest_of_manifest(named) != digest:
            if files is None:
                return None
            folder = _here.held.enter_context(scratch(_cache()))
            trial = TrialDir(folder, folder)
            with host_errors(folder):
                for name, content in files.items():
                    (folder / name).write_bytes(content)
            if digest_of_manifest(trial) != digest:
                raise DamagedRecording(f"{named.path}: its manifest is another")
        trial.check_seal()
        _here.recordings[digest] = trial
    return _here.recordings[digest]


def digest_of_manifest(trial: TrialDir) -> str:
    """SHA-256 of a recording's manifest, which names all its files; empty if there is none."""
    try:
        return hashlib.sha256((trial.path / MANIFEST).read_bytes()).hexdigest()
    except OSError:
        return ""


def _cache() -> Path:
    with host_errors(CACHE):
        CACHE.mkdir(parents=True, exist_ok=True)
    return CACHE
