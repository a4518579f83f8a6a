# SPDX-License-Identifier: Apache-2.0
"""What is done with crash states of a captured folder: explored, minimised, written, entered."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from powercut.campaign.folder import STATE_S, check_of, judge_folder
from powercut.crash.folder_rows import Promise
from powercut.explore.folder_judge import FolderJudge
from powercut.explore.request import Budget, ExploreRequest, Listener
from powercut.model.errors import UsageError
from powercut.recording.folder import (
    ALL_MODE_BITS,
    PERMISSIONS,
    CaptureRecording,
    build_tree,
    open_capture,
)
from powercut.recording.folder_state import (
    NamedState,
    folder_state_text,
    promise_of,
    resolve_folder_state,
)
from powercut.recover.native.folder import shell_in_folder
from powercut.rig.scratch import scratch
from powercut.store.files import host_errors
from powercut.store.folder import CaptureDir, CaptureResult
from powercut.store.folder_witness import FolderWitness, write_folder_witness
from powercut.witness.folder import minimize_folder
from powercut.witness.search import Progress, nothing_told


@dataclass(frozen=True)
class WrittenFolder:
    """A crash state that was written out: where, and how much it holds."""

    path: Path
    text: str
    files: int
    folders: int
    size: int


def explore_folder(
    directory: CaptureDir,
    wanted: ExploreRequest,
    promise: Promise | None = None,
    on_event: Listener = lambda _: None,
) -> CaptureResult:
    """Looks at more states; keeps what it has found beside the recording.

    By default under the promise of the verdict.  Raises DamagedRecording, HostError.
    """
    promise = promise or promise_of(directory)
    before = directory.find_result()
    state_s = STATE_S if before is None else before.state_s
    result = judge_folder(directory, promise, wanted, on_event, state_s=state_s, keep=True)
    directory.write_exploration(result)
    return result


def minimize_capture(
    directory: CaptureDir,
    state: str | None,
    *,
    operation: int | None,
    budget: Budget,
    promise: Promise | None = None,
    progress: Progress = nothing_told,
) -> FolderWitness:
    """The fewest lost writes that still lose something; keeps the witness beside the recording.

    Raises UsageError if nothing is lost, DamagedRecording, HostError.
    """
    recording = open_capture(directory)
    if promise is None:
        promise = (
            promise_of(directory)
            if state is None
            else resolve_folder_state(recording, state).promise
        )
    result = directory.find_result()
    check = check_of(recording, STATE_S if result is None else result.state_s)
    with (
        scratch() as folder,
        FolderJudge(recording, promise, check, folder) as judge,
    ):
        if not (control := judge.positive()).believed:
            raise UsageError(
                f"{directory.path}: {control.message}",
                hint="look at what is there (powercut shell), mend the check, and record again",
            )
        witness = minimize_folder(
            recording, judge, promise, state, operation=operation, budget=budget, progress=progress
        )
    write_folder_witness(directory, witness)
    return witness


def write_state(directory: CaptureDir, name: str, target: Path) -> WrittenFolder:
    """As `write_folder`, of the state of that name."""
    recording = open_capture(directory)
    return write_folder(recording, resolve_folder_state(recording, name), target)


def write_folder(recording: CaptureRecording, named: NamedState, target: Path) -> WrittenFolder:
    """Makes the new folder `target` of a crash state, in which nothing is setuid or setgid.

    Raises UsageError, HostError.
    """
    with host_errors(target):
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise UsageError(
                f"{target}: exists already", hint="give the name of a new or an empty folder"
            )
        target.mkdir(parents=True, exist_ok=True)
    _build(recording, named, target, PERMISSIONS)
    files = folders = size = 0
    for place, below, names in os.walk(target):
        folders += len(below)
        files += len(names)
        size += sum((Path(place) / one).lstat().st_size for one in names)
    text = folder_state_text(recording, recording.space(named.promise), named.state)
    return WrittenFolder(target, text, files, folders, size)


@dataclass(frozen=True)
class StateFolder:
    """A crash state for a person to work in."""

    text: str
    state: Path
    folder: Path

    def enter(self, commands: str | None) -> int:
        """A shell that finds the state where the captured folder was; or runs `commands` in it.

        Returns its exit status.  Raises HostError.
        """
        return shell_in_folder(self.state, self.folder, commands)


@contextmanager
def state_folder(directory: CaptureDir, name: str) -> Iterator[StateFolder]:
    """A crash state as a folder that is gone afterwards.  Raises UsageError, HostError."""
    recording = open_capture(directory)
    named = resolve_folder_state(recording, name)
    with scratch() as folder:
        target = folder / "state"
        target.mkdir()
        _build(recording, named, target)
        text = folder_state_text(recording, recording.space(named.promise), named.state)
        yield StateFolder(text, target, Path(recording.record.folder))


def _build(
    recording: CaptureRecording, named: NamedState, target: Path, mode_bits: int = ALL_MODE_BITS
) -> None:
    space = recording.space(named.promise)
    build_tree(space, space.tree(named.state), target, mode_bits=mode_bits)
