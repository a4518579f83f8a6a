# SPDX-License-Identifier: Apache-2.0
"""Recordings made by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from recordings_by_hand import recording_of

from powercut.recording.disk import DiskRecording


@pytest.fixture
def make_recording(tmp_path: Path) -> Callable[..., DiskRecording]:
    """Makes the test's one recording, in a folder of its own."""
    return partial(recording_of, tmp_path / "recording")
