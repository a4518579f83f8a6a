# SPDX-License-Identifier: Apache-2.0
"""What is done with crash states of a captured folder: explored, minimised, written, entered."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from powercut.campaign.folder import STATE_S, Checking, checking, judge_folder
from powercut.crash.states import CrashState
from powercut.explore.folder_judge import FolderJudge
from powercut.explore.request import Budget, ExploreRequest, Listener
from powercut.model.errors import UsageError
from powercut.recording.folder import (
    ALL_MODE_BITS,
    PERMISSIONS,
    FolderRecording,
    build_tree,
)
from powercut.recover.native.folder import shell_in_folder
from powercut.rig.scratch import scratch
from powercut.store.files import host_errors
from powercut.store.folder import CaptureResult
from powercut.store.witness import Witness
from powercut.witness.folder import minimize_folder
from powercut.witness.search import Progress, nothing_told


@dataclass(frozen=True)
class WrittenFolder:
    """How much a crash state holds that was written out, in files, folders and bytes."""

    files: int
    folders: int
    size: int


def explore_folder(
    recording: FolderRecording, wanted: ExploreRequest, on_event: Listener = lambda _: None
) -> CaptureResult:
    """Looks at more states; keeps what it has found beside the recording.

    Raises DamagedRecording, HostError.
    """
    before = recording.directory.find_result()
    state_s = STATE_S if before is None else before.state_s
    result = judge_folder(recording, wanted, on_event, state_s=state_s, keep=True)
    recording.directory.write_exploration(result)
    return result


def minimize_capture(
    recording: FolderRecording,
    state: str | None,
    *,
    operation: int | None,
    budget: Budget,
    progress: Progress = nothing_told,
    within: Checking | None = None,
) -> Witness:
    """The fewest lost writes that still lose something.

    Raises UsageError if nothing is lost, DamagedRecording, HostError.
    """
    result = recording.directory.find_result()
    state_s = STATE_S if result is None else result.state_s
    with (
        nullcontext(within) if within else checking(recording, state_s) as of,
        FolderJudge(recording, of.check, of.folder, known=of.known) as judge,
    ):
        if not (control := judge.positive()).believed:
            raise UsageError(
                f"{recording.directory.path}: {control.message}",
                hint="look at what is there (powercut shell), mend the check, and record again",
            )
        return minimize_folder(
            recording, judge, state, operation=operation, budget=budget, progress=progress
        )


def write_state(recording: FolderRecording, state: CrashState, target: Path) -> WrittenFolder:
    """Makes the new folder `target` of a crash state, in which nothing is setuid or setgid.

    Raises UsageError, HostError.
    """
    with host_errors(target):
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise UsageError(
                f"{target}: exists already", hint="give the name of a new or an empty folder"
            )
        target.mkdir(parents=True, exist_ok=True)
    _build(recording, state, target, PERMISSIONS)
    files = folders = size = 0
    for place, below, names in os.walk(target):
        folders += len(below)
        files += len(names)
        size += sum((Path(place) / one).lstat().st_size for one in names)
    return WrittenFolder(files, folders, size)


def enter_state(recording: FolderRecording, state: CrashState, commands: str | None) -> int:
    """A shell that finds the state where the captured folder was; or runs `commands` in it.

    Returns its exit status.  The state is gone afterwards.  Raises HostError.
    """
    with scratch() as folder:
        target = folder / "state"
        target.mkdir()
        _build(recording, state, target)
        return shell_in_folder(target, Path(recording.record.folder), commands)


def _build(
    recording: FolderRecording, state: CrashState, target: Path, mode_bits: int = ALL_MODE_BITS
) -> None:
    space = recording.space
    build_tree(space, space.tree(state), target, mode_bits=mode_bits)
