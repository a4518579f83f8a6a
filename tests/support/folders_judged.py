# SPDX-License-Identifier: Apache-2.0
"""The verdict on a recording of a captured folder, by a check that is a function of Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from powercut.crash.folder_rows import Promise
from powercut.explore.folder import look_at_folder
from powercut.explore.request import Budget, ExploreRequest
from powercut.model.observation import Observation
from powercut.recording.folder import FolderRecording
from powercut.store.folder import CaptureResult
from powercut.verdict.folder import verdict_of_capture


def judged_by(
    check: Callable[[Path], Observation],
    recording: FolderRecording,
    promise: Promise,
    scratch: Path,
    *,
    states: int = 400,
) -> CaptureResult:
    """What follows from so many states, which are made below the new folder `scratch`."""
    scratch.mkdir()
    wanted = ExploreRequest(budget=Budget(states), seed=1, confirm=False)
    seen = look_at_folder(recording.under(promise), wanted, lambda state, _: check(state), scratch)
    return verdict_of_capture(recording.under(promise), seen, state_s=10.0)
