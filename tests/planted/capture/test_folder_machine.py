# SPDX-License-Identifier: Apache-2.0
"""A check in a captured folder sees the machine of the run, which has booted since.

Locks by every name that a machine has are stale then, and nothing behind them is lost; what was
not synced is.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from powercut.campaign.folder import CaptureOrder, judge_folder, record_folder
from powercut.crash.folder_rows import Promise
from powercut.explore.request import Budget, ExploreRequest
from powercut.recording.folder import open_capture
from powercut.store.folder import CaptureDir, CaptureResult
from support.locked_store import WAYS, locked_store

pytestmark = pytest.mark.fuse

LAST = 3 * len(WAYS)


def captured(tmp_path: Path, forgetful: str = "", *, depth: int = 0) -> CaptureResult:
    folder = tmp_path / "folder"
    folder.mkdir()
    program = str(locked_store(tmp_path, forgetful=forgetful, last=LAST))
    command, check = ((sys.executable, program, verb, str(folder)) for verb in ("run", "check"))
    directory = CaptureDir.create(tmp_path / "recording")
    order = CaptureOrder(folder, command, check, 0, 60.0, 4096, 1)
    assert record_folder(order, directory).status == 0, directory.console.read_text()
    wanted = ExploreRequest(
        budget=Budget(states=80 if depth else 40), seed=1, confirm=False, depth=depth
    )
    return judge_folder(open_capture(directory, Promise.JOURNAL), wanted, state_s=120.0)


def test_no_lock_of_before_the_cut_is_held_by_anyone(tmp_path: Path) -> None:
    result = captured(tmp_path)
    assert result.positive is not None
    assert result.positive.passed, result.positive.message
    assert (result.verdict.name, result.control, result.acknowledged) == ("SAFE", "LOSSY", LAST), (
        result.reasons,
        result.explored.findings,
    )


def test_what_lies_behind_a_lock_and_was_not_synced_is_lost(tmp_path: Path) -> None:
    result = captured(tmp_path, "pid")
    assert result.positive is not None
    assert result.positive.passed, result.positive.message
    assert result.verdict.name == "LOSSY"
    lost = {lsn for one in result.explored.findings for of in one.lsns for lsn in of}
    assert lost
    assert {WAYS[lsn % len(WAYS)] for lsn in lost} == {"pid"}


def test_nor_is_one_of_a_check_that_was_cut_itself(tmp_path: Path) -> None:
    """Each check takes the locks."""
    result = captured(tmp_path, depth=1)
    assert result.explored.coverage.recovery_states > 0
    assert result.verdict.name == "SAFE", (result.reasons, result.explored.findings)
